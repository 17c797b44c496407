// Finds the run that `--resume` continues: its newest valid checkpoint, and the options to go on with.
import { existsSync } from 'node:fs';
import { type FoundCheckpoint, newestManifest, newestValidCheckpoint } from '../../checkpoint/directory.ts';
import { Gpt2Error } from '../../errors.ts';
import { readRunOptions } from '../../options/read.ts';
import { resumedOptions, runToResume, withGiven } from '../../options/resume.ts';
import type { TrainOptions } from '../../options/table.ts';
import { refuseLostCheckpoints, refuseOccupied, refuseUnreadable } from '../../runs/existing.ts';
import { checkpointsFolder, configPath } from '../../runs/paths.ts';
import { checkResumable, optionsBefore } from './resumable.ts';

export interface Resumed {
  readonly options: TrainOptions;
  /** Absent where nothing is resumed, or the run had no complete checkpoint yet: it starts at step 0. */
  readonly checkpoint: FoundCheckpoint | undefined;
}

/**
 * Merges the given options with those of the run that they resume, if they resume one.
 * @throws UsageError for contradicting flags; Gpt2Error if there is no run in --out, or a given option would break it
 */
export function mergeRun(given: TrainOptions, notice: (text: string) => void): Resumed {
  const out = runToResume(given);
  if (out === undefined) return { options: given, checkpoint: undefined };
  refuseUnreadable(out);
  const { checkpoint, damaged } = newestValidCheckpoint(checkpointsFolder(out), checkResumable);
  if (!checkpoint && damaged.length > 0) {
    throw new Gpt2Error(
      `no checkpoint of ${out} is whole: ${damaged[0]!.reason}; put its files back, or start again with --overwrite`,
    );
  }
  for (const { reason } of damaged) notice(`skipped a damaged checkpoint: ${reason}`);
  if (checkpoint) return { options: resumedOptions(optionsBefore(checkpoint), given, notice), checkpoint };
  refuseLostCheckpoints(out);
  refuseOccupied(out, { overwrite: true });
  notice(`${out} has no complete checkpoint: starting at step 0`);
  const options = { ...withGiven(configuredOptions(out), given), resume: false, overwrite: true };
  return { options, checkpoint: undefined };
}

/**
 * The same without reading weights, for the process that starts ranks: each rank merges for itself.
 * @throws as `mergeRun`, except for what is wrong with the checkpoint
 */
export function mergeUnverified(given: TrainOptions): TrainOptions {
  const out = runToResume(given);
  if (out === undefined) return given;
  const newest = newestManifest(checkpointsFolder(out));
  return withGiven(newest ? optionsBefore(newest) : configuredOptions(out), given);
}

const configuredOptions = (out: string): TrainOptions =>
  existsSync(configPath(out)) ? readRunOptions(configPath(out)) : {};
