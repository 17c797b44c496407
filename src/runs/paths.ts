// Names the files of a run folder; no other file knows these names. schema.ts and src/weights/checkpoint define their contents.
import { readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/** The log of the run: events, one JSON object per line. */
export const logPath = (run: string): string => join(run, 'log.jsonl');
const earlierLog = /^log-before-(\d+)\.jsonl$/;
/** The path for a log that a new run replaces; earlier logs are kept, and the highest number is the newest. */
export function nextEarlierLog(run: string): string {
  const numbers = readdirSync(run).map((entry) => Number(earlierLog.exec(entry)?.[1] ?? 0));
  return join(run, `log-before-${Math.max(0, ...numbers) + 1}.jsonl`);
}
/** The run's options with all defaults, as a JSON object; `--config` reads this file. */
export const configPath = (run: string): string => join(run, 'config.json');
/** The log of a rank other than 0; rank 0 writes the run's log. */
export const rankLogPath = (run: string, rank: number): string => join(run, 'ranks', `rank-${rank}.jsonl`);
/** Captures: one folder, such as step-00000020, per step whose loss or gradient norm was not finite. */
export const capturesFolder = (run: string): string => join(run, 'captures');
/** Checkpoints: one folder, such as step-00000020, per saved step. */
export const checkpointsFolder = (run: string): string => join(run, 'checkpoints');
/** A new folder for a run whose folder was replaced during the run: RUN-rescued next to RUN, or RUN-rescued-N for a `number` N > 1. */
export const rescuePath = (run: string, number: number): string =>
  join(dirname(resolve(run)), `${basename(resolve(run))}-rescued${number > 1 ? `-${number}` : ''}`);
/** Whether an entry of a run folder has the name of a file that a run or its reports write. */
export const isOfRun = (entry: string): boolean =>
  /^(log\.jsonl|config\.json(\.tmp)?|ranks|captures|checkpoints|events\.out\.tfevents\..*|(report|compare)\..*)$/.test(
    entry,
  ) || earlierLog.test(entry);
/** The present time in UTC, for the name of a new folder: "2026-11-22-193355". */
export const timeName = (): string => new Date().toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '');
