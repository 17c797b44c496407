// What a run does between steps besides training: a sample of text, a checkpoint, the closing event.

import { weightsHash } from '../checkpoint/weights-hash.ts';
import { pruneCheckpoints, writeCheckpoint } from '../checkpoint/write.ts';
import type { Model } from '../model/model.ts';
import { checkpointsFolder } from '../runs/paths.ts';
import type { RunEvent } from '../runs/schema.ts';
import { generate } from '../sample/generate.ts';
import { decode } from '../tokenizer/tokenizer.ts';
import type { Run } from './run.ts';

/** Tokens in a sample taken while training. */
const sampleTokens = 64;

/** A text from nothing; the same for the same weights, seed and step. */
export async function sampleText(model: Model, seed: number, step: number): Promise<string> {
  const tokens: number[] = [];
  const options = { prompt: [], tokens: sampleTokens, temperature: 1, seed: seed + step, stopAtEndOfText: true };
  for await (const token of generate(model, options)) tokens.push(token);
  return decode(tokens);
}

/** Writes the state after `step` updates and gives the folder it lies in. */
export function checkpointRun(run: Run, step: number): string {
  const { model, trainer, options, configuration, loader, log, out } = run;
  const folder = checkpointsFolder(out);
  const path = writeCheckpoint({
    folder,
    step,
    model,
    moments: trainer,
    manifest: {
      program: run.program,
      configuration,
      position: loader.position,
      logBytes: log.bytes,
      codePath: model.device.description.codePath,
      shards: run.shards,
    },
  });
  if (options.keep !== undefined) pruneCheckpoints(folder, options.keep);
  return path;
}

/** The event that closes a finished run. */
export function doneEvent(run: Run, seconds: number): RunEvent {
  return { event: 'done', steps: run.steps, seconds, weights: weightsHash(run.model) };
}
