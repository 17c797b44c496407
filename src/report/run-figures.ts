// What a run's log tells besides its curves, for readers of a report: how the run ended. What is kept of a log is in
// page/logged-run.js, which the live page shares.
import type { RunRecord } from '../runs/reader.ts';
import { endOf, LoggedRun } from './page/logged-run.js';

/** How a run ended. */
export type RunEnd = ReturnType<typeof endOf>;

export const endOfRun = ({ events, configuration }: Pick<RunRecord, 'events' | 'configuration'>): RunEnd =>
  endOf(loggedRun(events), configuration);

function loggedRun(events: RunRecord['events']): LoggedRun {
  const run = new LoggedRun();
  for (const event of events) run.take(event);
  return run;
}
