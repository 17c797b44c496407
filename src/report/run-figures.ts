// Derives a run's facts from its whole log. The live page derives the same line by line, from logged-run.ts and tiles.ts.
import { dataSheetFlops, flopsPerToken } from '../model/flops.ts';
import { pairs } from '../runs/curves.ts';
import type { RunRecord, Series } from '../runs/reader.ts';
import type { RunEvent } from '../runs/schema.ts';
import { endOf, LoggedRun } from './logged-run.ts';
import { tilesOf } from './tiles.ts';

type Logged = Pick<RunRecord, 'configuration' | 'events'>;

export const endOfRun = ({ events, configuration }: Logged) => endOf(loggedRun(events), configuration);

export function runFigures({ events, configuration }: Logged) {
  const run = loggedRun(events);
  const start = events.findLast((event) => event.event === 'run');
  return {
    end: endOf(run, configuration),
    tiles: tilesOf(run, start && measuresOf(start)),
    samples: run.samples,
    lines: run.lines,
  };
}

export const throughputOf = (events: RunRecord['events']): Series => pairs(loggedRun(events).series.tokensPerSecond);

/** The figures that turn a step's time into throughput and MFU. */
export const measuresOf = ({ configuration, device, dtype }: Extract<RunEvent, { event: 'run' }>) => ({
  tokensPerStep: configuration.totalBatch,
  flopsPerToken: flopsPerToken(configuration, configuration.sequence),
  /** Operations per second; undefined if unknown. */
  dataSheetFlops: dataSheetFlops(device, dtype),
});

function loggedRun(events: RunRecord['events']): LoggedRun {
  const run = new LoggedRun();
  for (const event of events) run.take(event);
  return run;
}
