// What a run's log tells besides its curves: how the run ended, its last figures, throughput, samples, the end of the log.
// All of it is worked out by page/logged-run.js and page/tiles.js, which the live page shares.
import { dataSheetFlops, flopsPerToken } from '../model/flops.ts';
import type { RunRecord, Series } from '../runs/reader.ts';
import type { RunEvent } from '../runs/schema.ts';
import { endOf, LoggedRun, type Sample } from './page/logged-run.js';
import { type Tile, tilesOf } from './page/tiles.js';

type Logged = Pick<RunRecord, 'configuration' | 'events'>;

/** How a run ended. */
export type RunEnd = ReturnType<typeof endOf>;

/** What a run's throughput is measured by. */
export interface Measures {
  readonly tokensPerStep: number;
  readonly flopsPerToken: number;
  /** Of the device's data sheet, operations per second; absent where none is known. */
  readonly dataSheetFlops?: number;
}

/** What is shown of one run besides its curves and tables. */
export interface RunFigures {
  readonly end: RunEnd;
  readonly tiles: readonly Tile[];
  readonly samples: readonly Sample[];
  /** The end of the log, for reading. */
  readonly lines: readonly string[];
}

export const endOfRun = ({ events, configuration }: Logged): RunEnd => endOf(loggedRun(events), configuration);

export function runFigures({ events, configuration }: Logged): RunFigures {
  const run = loggedRun(events);
  const start = events.findLast((event) => event.event === 'run');
  return {
    end: endOf(run, configuration),
    tiles: tilesOf(run, start && measuresOf(start)),
    samples: run.samples,
    lines: run.lines,
  };
}

export function throughputOf(events: RunRecord['events']): Series {
  const { steps, values } = loggedRun(events).series.tokensPerSecond;
  return steps.map((step, index) => [step, values[index]!]);
}

/** @param start the line that says how a run was started */
export const measuresOf = ({ configuration, device, dtype }: Extract<RunEvent, { event: 'run' }>): Measures => ({
  tokensPerStep: configuration.totalBatch,
  flopsPerToken: flopsPerToken(configuration, configuration.sequence),
  dataSheetFlops: dataSheetFlops(device, dtype),
});

function loggedRun(events: RunRecord['events']): LoggedRun {
  const run = new LoggedRun();
  for (const event of events) run.take(event);
  return run;
}
