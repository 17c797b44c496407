// Reads a run log: its events, and its series of losses, norms and learning rates. schema.ts defines the events.
import { existsSync, statSync } from 'node:fs';
import { checkArguments } from '../base/checks/given.ts';
import { gpt2Error, orElse } from '../base/errors.ts';
import { readWholeFile } from '../base/files/regular-file.ts';
import { shellWord } from '../base/wording.ts';
import type { Configuration } from '../options/table.ts';
import { newestManifest } from '../weights/checkpoint/directory.ts';
import { pairs, RunCurves, type SeriesName } from './curves.ts';
import { findRuns } from './find-runs.ts';
import { checkpointsFolder, logPath } from './paths.ts';
import { type RunEvent, readEvent } from './schema.ts';

/** Pairs of step and value, in ascending order of steps. */
export type Series = readonly (readonly [step: number, value: number])[];

/** Series of a run: losses of training and validation, gradient norms, learning rates. */
export type RunSeries = Readonly<Record<SeriesName, Series>>;

/** The contents of a run log. */
export interface RunRecord {
  readonly events: readonly RunEvent[];
  /** The configuration of the run's last start; options may change when a run is resumed. */
  readonly configuration: Configuration;
  readonly series: RunSeries;
  /** Step of the newest checkpoint, if saved after the log's last start. A log without this step has lost its end. */
  readonly saved?: number | undefined;
}

/**
 * Reads the log of a run folder, without an incomplete last line: the run may be in progress or may have been killed.
 * @throws Gpt2Error if there is no log, a line is damaged, or the run's configuration is missing
 * @example const [step, loss] = readRun('runs/first').series.train.at(-1)!;
 */
export function readRun(run: string): RunRecord {
  checkArguments({ run });
  const path = logPath(run);
  // Find the checkpoint before reading the log: a run in progress logs a step before the step's save, so the log has the step.
  const newest = orElse(undefined, () => newestManifest(checkpointsFolder(run)))?.manifest;
  let text: string;
  try {
    // Bytes that are not UTF-8 damage only the line that holds them; the error below names that line.
    text = readWholeFile(path).toString();
  } catch (cause) {
    if (!existsSync(run)) throw gpt2Error`${run} does not exist; name a folder that train wrote`;
    const [first] = statSync(run).isDirectory() ? findRuns(run) : [];
    if (first !== undefined && first !== run) {
      throw gpt2Error`${run} is a folder of runs: name one, such as ${shellWord(first)}; \`compare\` takes the folder`;
    }
    const why = (cause as NodeJS.ErrnoException).code ?? cause;
    throw gpt2Error`${run} is not a run folder: ${path} cannot be read (${why}); name a folder that train wrote`;
  }
  const lines = text.split('\n');
  lines.pop();
  const events = lines.map((line, index) => {
    const event = readEvent(line);
    if (event) return event;
    throw gpt2Error`${path} line ${index + 1} is damaged: ${line.slice(0, 60)}; remove the line, or name another run`;
  });
  const last = events.findLast((event) => event.event === 'run');
  if (!last) throw gpt2Error`${path} has no "run" line: nothing was trained yet; name another run`;
  const saved = newest && Date.parse(newest.time) > Date.parse(last.time) ? newest.step : undefined;
  return { events, configuration: last.configuration, series: seriesOf(events), saved };
}

/** The last validation event and the last HellaSwag event of a step; empty if the log cannot be read. */
export function evaluationsAt(run: string, step: number): RunEvent[] {
  const events = eventsAt(run, step);
  return (['val', 'hellaswag'] as const).flatMap((kind) => events.findLast(({ event }) => event === kind) ?? []);
}

/** The events of a step, and the `done` event if the run ended after `step` steps; none if the log cannot be read. */
export function eventsAt(run: string, step: number, events = eventsIfReadable(run)): RunEvent[] {
  const stepOf = (event: RunEvent) =>
    event.event === 'run' ? undefined : event.event === 'done' ? event.steps : event.step;
  return events.filter((event) => stepOf(event) === step);
}

/**
 * The events of a log, without its damaged lines; empty if the log cannot be read. A crash of the machine can damage a log.
 * @param kind the only kind of events to read; default: all kinds
 */
export function eventsIfReadable(run: string, kind = ''): readonly RunEvent[] {
  const lines = orElse('', () => readWholeFile(logPath(run)).toString()).split('\n');
  return lines.flatMap((line) => (line.startsWith(`{"event":"${kind}`) ? (readEvent(line) ?? []) : []));
}

function seriesOf(events: readonly RunEvent[]): RunSeries {
  const curves = new RunCurves();
  for (const event of events) curves.take(event);
  return { train: pairs(curves.train), val: pairs(curves.val), norm: pairs(curves.norm), lr: pairs(curves.lr) };
}
