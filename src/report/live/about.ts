// Collects facts for a run's live page that its log lacks: its name, its reference curves, the measures of its throughput.
import { basename, resolve } from 'node:path';
import { matchingReference } from '../compare/reference.ts';
import { makeFigure } from '../make-figure.ts';
import { measuresOf } from '../tiles.ts';
import type { RunStart } from './log-tail.ts';

export type About = ReturnType<typeof aboutRun>;

/** @param run the run's folder; viewers see only its last part */
export function aboutRun(run: string, start: RunStart) {
  const { configuration } = start;
  const name = basename(resolve(run));
  const series = { train: [], val: [], norm: [], lr: [] };
  const reference = matchingReference(configuration);
  const figure = makeFigure([{ name, configuration, series, events: [start] }], reference ? [reference] : []);
  return {
    // The run is the last curve, without points. Without points only the last table, the configurations, has content.
    figure: { ...figure, run: undefined, tables: figure.tables.slice(-1) },
    steps: configuration.steps,
    ...measuresOf(start),
  };
}
