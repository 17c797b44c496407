// Runs that were never trained, for tests of figures.

import type { NamedRun } from '../../src/report/compare/pairs.ts';
import { readReference } from '../../src/report/compare/reference.ts';
import { pairs, RunCurves } from '../../src/runs/curves.ts';
import type { RunSeries } from '../../src/runs/reader.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { configuration, runEvent } from '../runs/run-log.ts';

export const d6 = readReference('llmc-d6-fp32-b4-t64');
export const flat = readReference('llmc-d12-fp32-b4-t64');

/** A run with the configuration of d6, and its series unless there are others. */
export const runOf = (
  name: string,
  series: Partial<RunSeries> = d6.series,
  changes: Partial<NamedRun> = {},
): NamedRun => ({
  ...{ name, folder: `runs/${name}`, configuration, events: [runEvent()] },
  series: { train: [], val: [], norm: [], lr: [], ...series },
  ...changes,
});

/** A run with the series of its log. */
export function loggedRun(name: string, events: readonly RunEvent[]): NamedRun {
  const curves = new RunCurves();
  for (const event of events) curves.take(event);
  const { train, val, norm, lr } = curves;
  return runOf(name, { train: pairs(train), val: pairs(val), norm: pairs(norm), lr: pairs(lr) }, { events });
}

/** Values of the steps from 0 on, as a series. */
export const curve = (...values: number[]) => values.map((value, step): [step: number, value: number] => [step, value]);
