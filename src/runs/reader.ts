// Reads a run log back: its events, and its series of losses, norms and learning rates. What an event holds is in
// schema.ts; laying a series over another run's is left to ../compare.
import { Gpt2Error } from '../errors.ts';
import { readTextFile } from '../files/regular-file.ts';
import type { Configuration } from '../options/table.ts';
import { logPath } from './paths.ts';
import { parseEvent, type RunEvent } from './schema.ts';

/** Pairs of step and value, steps rising. */
export type Series = readonly (readonly [step: number, value: number])[];

/** What a run measured: losses of training and validation, gradient norms, learning rates. */
export interface RunSeries {
  readonly train: Series;
  readonly val: Series;
  readonly norm: Series;
  readonly lr: Series;
}

/** A run as its log tells it. */
export interface RunRecord {
  readonly events: readonly RunEvent[];
  /** Of its last start: a resumed run may have been given other options. */
  readonly configuration: Configuration;
  readonly series: RunSeries;
}

/**
 * Reads the log of a run folder. A torn last line (a run that is being written, or was killed) is left out.
 * @throws Gpt2Error if there is no log, a line is damaged, or it does not say how the run was configured
 * @example const [step, loss] = readRun('runs/first').series.train.at(-1)!;
 */
export function readRun(run: string): RunRecord {
  const path = logPath(run);
  let text: string;
  try {
    text = readTextFile(path);
  } catch (cause) {
    throw new Gpt2Error(
      `${run} is not a run folder: ${path} cannot be read (${(cause as NodeJS.ErrnoException).code ?? (cause as Error).message}); name a folder that train wrote`,
      { cause },
    );
  }
  const lines = text.split('\n');
  lines.pop();
  const events = lines.map((line, index) => {
    try {
      return parseEvent(line);
    } catch (cause) {
      throw new Gpt2Error(
        `${path} line ${index + 1} is damaged: ${line.slice(0, 60)}; take the line out, or name another run`,
        { cause },
      );
    }
  });
  const last = events.findLast((event) => event.event === 'run');
  if (!last) throw new Gpt2Error(`${path} has no "run" line: nothing was trained yet; name another run`);
  return { events, configuration: last.configuration, series: seriesOf(events) };
}

/** What was measured of the model at a step, each kind as logged last: what the log has, if it can be read. */
export function evaluationsAt(run: string, step: number): RunEvent[] {
  const events = eventsAt(run, step);
  return (['val', 'hellaswag'] as const).flatMap((kind) => events.findLast(({ event }) => event === kind) ?? []);
}

/** What a run's log tells at a step, with the end of a run of so many: what it has, if it can be read. */
export function eventsAt(run: string, step: number): RunEvent[] {
  const stepOf = (event: RunEvent) =>
    event.event === 'run' ? undefined : event.event === 'done' ? event.steps : event.step;
  return eventsIfReadable(run).filter((event) => stepOf(event) === step);
}

/** What a run's log tells, if it can be read: a machine that goes down can take the log's end, or all of it, with it. */
export function eventsIfReadable(run: string): readonly RunEvent[] {
  try {
    return readRun(run).events;
  } catch (error) {
    if (error instanceof Gpt2Error) return [];
    throw error;
  }
}

/**
 * Of a step that was logged twice the later value counts. A start from step s takes back what was trained from s on and
 * what was validated after it (step s itself is validated before it is saved); a start from nothing takes back all.
 */
function seriesOf(events: readonly RunEvent[]): RunSeries {
  const maps = {
    train: new Map<number, number>(),
    val: new Map<number, number>(),
    norm: new Map<number, number>(),
    lr: new Map<number, number>(),
  };
  for (const event of events) {
    if (event.event === 'run') {
      const from = event.resumedFrom ?? 0;
      for (const map of [maps.train, maps.norm, maps.lr]) dropFrom(map, from);
      dropFrom(maps.val, event.resumedFrom === undefined ? 0 : from + 1);
    }
    if (event.event === 'val') maps.val.set(event.step, event.loss);
    if (event.event !== 'train') continue;
    maps.train.set(event.step, event.loss);
    maps.norm.set(event.step, event.norm);
    maps.lr.set(event.step, event.lr);
  }
  const sorted = (map: Map<number, number>): Series => [...map].sort(([a], [b]) => a - b);
  return { train: sorted(maps.train), val: sorted(maps.val), norm: sorted(maps.norm), lr: sorted(maps.lr) };
}

function dropFrom(map: Map<number, number>, first: number): void {
  for (const step of map.keys()) if (step >= first) map.delete(step);
}
