// Where things lie in a run folder: the only file that knows their names. What is in them is left to schema.ts (log,
// config) and ../checkpoint.
import { basename, dirname, join, resolve } from 'node:path';

/** The events, one JSON object a line. */
export const logPath = (run: string): string => join(run, 'log.jsonl');
/** The log of an earlier run that a new one replaced; the highest number is the newest. */
export const earlierLogPath = (run: string, number: number): string => join(run, `log-before-${number}.jsonl`);
export const earlierLog = /^log-before-(\d+)\.jsonl$/;
/** The configuration with every default settled; `--config` takes it. */
export const configPath = (run: string): string => join(run, 'config.json');
/** What one of several ranks has logged for itself; rank 0's is the run's. */
export const rankLogPath = (run: string, rank: number): string => join(run, 'ranks', `rank-${rank}.jsonl`);
/** One folder a step whose numbers were not finite: step-00000020. */
export const capturesFolder = (run: string): string => join(run, 'captures');
/** One folder a checkpoint: step-00000020. */
export const checkpointsFolder = (run: string): string => join(run, 'checkpoints');
/** Where a run saves if its folder was removed or moved: next to that folder, with the first number that is free. */
export const rescuePath = (run: string, number: number): string =>
  join(dirname(resolve(run)), `${basename(resolve(run))}-rescued${number > 1 ? `-${number}` : ''}`);
