// Chooses a run's model if --model names none. Refuses folders without a model: runs without a checkpoint, and folders of runs.
import { existsSync, statSync } from 'node:fs';
import { attempt, Gpt2Error, gpt2Error } from '../base/errors.ts';
import { continueWith, shellWord } from '../base/wording.ts';
import type { Configuration } from '../options/table.ts';
import { listCheckpoints } from '../weights/checkpoint/directory.ts';
import { findRuns, newestModel, newestRun } from './find-runs.ts';
import { whileIdle } from './lock.ts';
import { checkpointsFolder, logPath } from './paths.ts';
import { readRun } from './reader.ts';

/** The model that --model names; if --model is not set, the run in runs/ that saved last. @throws as `refuseUnsaved` */
export function modelOrNewest(named: string | undefined): string {
  const model = named ?? attempt(newestModel);
  const run = model instanceof Gpt2Error ? attempt(newestRun) : model;
  if (!(run instanceof Gpt2Error)) refuseUnsaved(run);
  if (model instanceof Gpt2Error) throw model;
  return model;
}

/** @throws Gpt2Error for a run without a checkpoint, and for a folder of runs; the message names the folder's best run */
export function refuseUnsaved(path: string): void {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (existsSync(logPath(path))) {
    const run = attempt(() => readRun(path));
    if (run instanceof Gpt2Error || listCheckpoints(checkpointsFolder(path)).length > 0) return;
    // The run did save, so its checkpoints were removed later: reading the model reports this.
    if (run.events.some(({ event }) => event === 'checkpoint')) return;
    throw unsaved(path, run.configuration);
  }
  const runs = findRuns(path);
  if (runs.length === 0) return;
  const best = bestOf(runs);
  throw gpt2Error`${path} is a folder of runs: name one of them, such as ${shellWord(best?.run ?? runs[0]!)}${best ? `, which has the lowest validation loss (${best.loss.toFixed(4)})` : ''}`;
}

function unsaved(run: string, { saveEvery }: Configuration): Gpt2Error {
  if (whileIdle(run, () => {})) {
    return gpt2Error`${run} has no checkpoint: the run ended before it saved one; ${continueWith(run)}, or name another`;
  }
  const every = typeof saveEvery === 'number' ? `every ${saveEvery} steps` : `every ${saveEvery}`;
  const when = saveEvery === 0 ? 'at its end' : `${every} and at its end`;
  return gpt2Error`${run} has no checkpoint yet: the run saves ${when} (--save-every); wait, stop it with Ctrl-C, which saves too, or name another`;
}

/** The run whose last validation loss is lowest; undefined if no run has a validation loss. */
function bestOf(runs: readonly string[]): { run: string; loss: number } | undefined {
  const losses = runs.flatMap((run) => {
    const record = attempt(() => readRun(run));
    const loss = record instanceof Gpt2Error ? undefined : record.series.val.at(-1)?.[1];
    return loss === undefined || Number.isNaN(loss) ? [] : [{ run, loss }];
  });
  return losses.sort((a, b) => a.loss - b.loss)[0];
}
