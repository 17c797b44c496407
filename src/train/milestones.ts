// What a run does between steps besides training: a sample of text, a checkpoint, the closing event.

import { basename } from 'node:path';
import { weightsHash } from '../checkpoint/weights-hash.ts';
import { pruneCheckpoints, writeCheckpoint } from '../checkpoint/write.ts';
import { checkpointsFolder } from '../runs/paths.ts';
import type { RunEvent } from '../runs/schema.ts';
import { generate } from '../sample/generate.ts';
import { decode, endOfText } from '../tokenizer/tokenizer.ts';
import type { Run } from './run.ts';

/** Tokens in a sample taken while training. */
const sampleTokens = 64;

/** A text from nothing; the same for the same weights, seed and step. */
export async function sampleText({ model, options }: Run, step: number): Promise<string> {
  const tokens: number[] = [];
  const generation = {
    prompt: [endOfText],
    tokens: sampleTokens,
    window: options.sequence,
    seed: options.seed + step,
    stopAt: endOfText,
  };
  for await (const token of generate(model, generation)) tokens.push(token);
  return decode(tokens);
}

/**
 * Writes the state after `step` updates and gives the folder it lies in.
 * @throws Gpt2Error if it, or the log up to it, cannot be written; older checkpoints are untouched
 */
export function checkpointRun({ model, trainer, configuration, loader, log, out, program }: Run, step: number): string {
  // A resumed run goes on behind the log's lines of before: they must be there.
  log.settle();
  return writeCheckpoint({
    folder: checkpointsFolder(out),
    step,
    model,
    moments: trainer,
    manifest: {
      program,
      configuration,
      position: loader.position,
      logBytes: log.bytes,
      codePath: model.device.description.codePath,
      shards: loader.shards.map(({ path, tokens }) => ({ name: basename(path), tokens })),
    },
  });
}

/** Removes the checkpoints that --keep and --keep-every do not keep. @throws Gpt2Error if one cannot be removed */
export function pruneRun({ options: { keep, keepEvery }, out }: Run): void {
  if (keep !== undefined) pruneCheckpoints(checkpointsFolder(out), { keep, keepEvery });
}

/** The event that closes a finished run. */
export function doneEvent({ steps, model }: Run, seconds: number): RunEvent {
  return { event: 'done', steps, seconds, weights: weightsHash(model) };
}
