// What a run tells besides its steps: what it knows of HellaSwag, a sample of text, the closing event.

import { startPosition } from '../batches/order.ts';
import { weightsHash } from '../checkpoint/weights-hash.ts';
import { type Hellaswag, scoreHellaswag } from '../evaluate/hellaswag.ts';
import { summedLoss } from '../evaluate/mean-loss.ts';
import type { KeyValueCache } from '../model/key-value-cache.ts';
import type { RunEvent } from '../runs/schema.ts';
import { generate } from '../sample/generate.ts';
import { decode, tokenizerOf } from '../tokenizer/tokenizer.ts';
import type { Run, Validation } from './run.ts';

/** Tokens in a sample taken while training. */
const sampleTokens = 64;

/** The mean loss over the first batches of the validation set, of which each rank reads its part. */
export async function validationLoss({ model, ranks }: Run, validation: Validation): Promise<number> {
  const { loader, batch, sequence, batches } = validation;
  loader.seek(startPosition);
  const own = await summedLoss(model, validation, () => loader.next());
  const sum = ranks && validation.ranks > 1 ? await ranks.sum(own) : own;
  return sum / (batches * batch * sequence * validation.ranks);
}

/** In the memory that a micro-batch has. */
export async function hellaswagEvent(run: Run, hellaswag: Hellaswag, step: number): Promise<RunEvent> {
  const { model, options, ranks } = run;
  const { batch, sequence } = options;
  const { acc, accNorm, questions } = await scoreHellaswag(model, hellaswag, { batch, sequence, ranks });
  return { event: 'hellaswag', step, acc, accNorm, questions };
}

/** A text from nothing; the same for the same weights, seed and step. */
export async function sampleText(cache: KeyValueCache, { options }: Run, step: number): Promise<string> {
  const tokens: number[] = [];
  const tokenizer = tokenizerOf(cache.model.config)!;
  const generation = {
    prompts: [[tokenizer.endOfText]],
    tokens: sampleTokens,
    seed: (options.seed + step) % 2 ** 32,
    stopAt: tokenizer.endOfText,
  };
  for await (const next of generate(cache, generation)) if ('token' in next) tokens.push(next.token);
  return decode(tokens, tokenizer);
}

/** The event that closes a finished run. `skipped`: updates that --skip-spikes left out. */
export function doneEvent(
  { steps, model }: Run,
  { seconds, skipped }: { seconds: number; skipped: number | undefined },
): RunEvent {
  return { event: 'done', steps, seconds, weights: weightsHash(model), ...(skipped === undefined ? {} : { skipped }) };
}
