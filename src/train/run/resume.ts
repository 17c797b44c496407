// Finds the newest valid checkpoint of the run that --resume continues, and merges its options with those given.
import { existsSync } from 'node:fs';
import { type FoundCheckpoint, newestManifest, newestValidCheckpoint } from '../../checkpoint/directory.ts';
import { Gpt2Error } from '../../errors.ts';
import { readRunOptions } from '../../options/read.ts';
import { resumedOptions, runToResume, withGiven } from '../../options/resume.ts';
import type { TrainOptions } from '../../options/table.ts';
import { refuseLostCheckpoints, refuseOccupied, refuseUnreadable } from '../../runs/existing.ts';
import { checkpointsFolder, configPath } from '../../runs/paths.ts';
import { checkResumable, optionsBefore } from './resumable.ts';

interface Resumed {
  readonly options: TrainOptions;
  /** Undefined if the run starts at step 0: nothing is resumed, or the run has no complete checkpoint yet. */
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
      `no checkpoint of ${out} is valid: ${damaged[0]!.reason}; restore its files, or start over with --overwrite`,
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
 * As `mergeRun`, but without verifying the checkpoint, for the process that starts ranks: each rank then calls `mergeRun`.
 * @throws as `mergeRun`, except for a damaged checkpoint
 */
export function mergeUnverified(given: TrainOptions): TrainOptions {
  const out = runToResume(given);
  if (out === undefined) return given;
  const newest = newestManifest(checkpointsFolder(out));
  return withGiven(newest ? optionsBefore(newest) : configuredOptions(out), given);
}

const configuredOptions = (out: string): TrainOptions =>
  existsSync(configPath(out)) ? readRunOptions(configPath(out)) : {};
