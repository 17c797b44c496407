// What a run tells besides its steps: what it knows of HellaSwag, a sample of text, the closing event.

import { startPosition } from '../../batches/order.ts';
import { weightsHash } from '../../checkpoint/weights-hash.ts';
import { InterruptedError } from '../../errors.ts';
import { type Hellaswag, scoreHellaswag } from '../../evaluate/hellaswag.ts';
import { summedLoss } from '../../evaluate/mean-loss.ts';
import type { KeyValueCache } from '../../model/key-value-cache.ts';
import type { RunEvent } from '../../runs/schema.ts';
import { generate } from '../../sample/generate.ts';
import { decode, tokenizerOf } from '../../tokenizer/tokenizer.ts';
import type { Run, Validation } from './open-run.ts';

/** Tokens in a sample taken while training. */
const sampleTokens = 64;

/**
 * The mean loss over the first batches of the validation set, of which each rank reads its part.
 * @throws InterruptedError, at every rank, if `signal` is aborted at one before it is done
 */
export async function validationLoss(
  { model, ranks }: Run,
  validation: Validation,
  signal: AbortSignal | undefined,
): Promise<number> {
  const { loader, batch, sequence, batches, different } = validation;
  loader.seek(startPosition);
  const sumOf = (count: number) => summedLoss(model, { batch, sequence, batches: count }, () => loader.next(), signal);
  // A batch that comes again gives what it gave: each is run once, the first ones count once more.
  const [rounds, more] = [Math.floor(batches / different), batches % different];
  let own: number | InterruptedError;
  try {
    const first = await sumOf(more);
    own = rounds === 0 ? first : (rounds + 1) * first + rounds * (await sumOf(different - more));
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    own = error;
  }
  // As texts: JSON has no word for NaN.
  const all = ranks ? await ranks.allGather(own instanceof InterruptedError ? null : String(own)) : [own];
  if (all.some((each) => each === null || each instanceof InterruptedError)) {
    throw own instanceof InterruptedError ? own : new InterruptedError('another rank was asked to stop');
  }
  const parts = all.slice(0, validation.ranks).map(Number);
  return parts.reduce((sum, part) => sum + part) / (batches * batch * sequence * validation.ranks);
}

/** In the memory that a micro-batch has. @throws InterruptedError as `validationLoss` */
export async function hellaswagEvent(
  run: Run,
  hellaswag: Hellaswag,
  step: number,
  signal: AbortSignal | undefined,
): Promise<RunEvent> {
  const { model, options, ranks } = run;
  const { batch, sequence } = options;
  const { acc, accNorm, questions } = await scoreHellaswag(model, hellaswag, { batch, sequence, ranks, signal });
  return { event: 'hellaswag', step, acc, accNorm, questions };
}

/** A text from nothing; the same for the same weights, seed and step. @throws InterruptedError after `signal` */
export async function sampleText(
  cache: KeyValueCache,
  { options }: Run,
  step: number,
  signal: AbortSignal | undefined,
): Promise<string> {
  const tokens: number[] = [];
  const tokenizer = tokenizerOf(cache.model.config)!;
  const generation = {
    prompts: [[tokenizer.endOfText]],
    tokens: sampleTokens,
    seed: (options.seed + step) % 2 ** 32,
    stopAt: tokenizer.endOfText,
  };
  for await (const next of generate(cache, generation)) {
    if (signal?.aborted) throw new InterruptedError(`stopped after ${tokens.length} tokens`);
    if ('token' in next) tokens.push(next.token);
  }
  return decode(tokens, tokenizer);
}

/** The event that closes a finished run. `skipped`: updates that --skip-spikes left out. */
export async function doneEvent(
  { steps, model }: Run,
  { seconds, skipped }: { seconds: number; skipped: number | undefined },
): Promise<RunEvent> {
  return {
    event: 'done',
    steps,
    seconds,
    weights: await weightsHash(model),
    ...(skipped === undefined ? {} : { skipped }),
  };
}
