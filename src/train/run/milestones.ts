// Evaluates a run between steps: validation loss, HellaSwag, a text sample.
import { gpt2Error, InterruptedError, ShapeError } from '../../base/errors.ts';
import { startPosition } from '../../data/batches/order.ts';
import { scoreHellaswag } from '../../inference/evaluate/hellaswag.ts';
import { gather, sequenceLosses, summedLoss } from '../../inference/evaluate/mean-loss.ts';
import { generate } from '../../inference/sample/generate.ts';
import type { KeyValueCache } from '../../model/key-value-cache.ts';
import { isRoot } from '../../ranks/ranks.ts';
import type { RunEvent } from '../../runs/schema.ts';
import { promptIds, textOf } from '../../tokenizer/tokenizer.ts';
import type { Validation, ValidationBatches } from './data.ts';
import type { Run } from './run.ts';

/** Maximum number of sequence losses in the log event of the last validation. */
const mostListed = 1000;

const sampleTokens = 64;

interface Milestone {
  readonly kind: 'val' | 'hellaswag' | 'sample';
  readonly every: number;
  readonly run: () => Promise<void>;
}

/** Evaluations due at a step, in order. Each `run` throws InterruptedError, on every rank, if any rank's `signal` is aborted. */
export function milestonesAt(
  run: Run,
  step: number,
  isDue: (every: number, kind: RunEvent['event']) => boolean,
  signal: AbortSignal | undefined,
  log: (event: RunEvent) => void,
): Milestone[] {
  const { options, ranks } = run;
  const { validation, hellaswag } = run.data;
  const { model, cache } = run.trained;
  const milestones: Milestone[] = [];
  const add = (kind: Milestone['kind'], every: number, run: Milestone['run']) => {
    if (isDue(every, kind)) milestones.push({ kind, every, run });
  };
  if (validation)
    add('val', options.valEvery, async () => {
      const found = await validate(run, validation, step, signal).catch((error: unknown) => {
        throw error instanceof ShapeError ? new ShapeError(`the validation of step ${step}: ${error.message}`) : error;
      });
      log({ event: 'val', step, ...found });
    });
  if (hellaswag && step > 0)
    add('hellaswag', options.hellaswagEvery, async () => {
      const { batch, sequence } = options;
      const { acc, accNorm, questions } = await scoreHellaswag(model, hellaswag, { batch, sequence, ranks, signal });
      log({ event: 'hellaswag', step, acc, accNorm, questions });
    });
  if (cache && step > 0)
    add('sample', options.sampleEvery, async () => {
      // With several ranks, `signal` does not interrupt rank 0's sample, because the other ranks wait in the barrier below.
      if (isRoot(ranks))
        log({ event: 'sample', step, text: await sampleText(cache, run, step, ranks ? undefined : signal) });
      await ranks?.barrier();
    });
  return milestones;
}

/** The validation loss, and how many tokens and bytes it covers; after the run's last step, also the loss of each sequence. */
async function validate(run: Run, validation: Validation, step: number, signal: AbortSignal | undefined) {
  if ('loader' in validation) return meanOfBatches(run, validation, signal);
  const { ranks, options } = run;
  const { set, lengths } = validation;
  const settings = { batch: options.batch, lengths, ranks, signal };
  const { losses, ...figures } = await sequenceLosses(run.trained.model, set, settings);
  return step === run.span.steps ? { ...figures, sequenceLosses: thinned(losses) } : figures;
}

/** At most 1,000 of the values, evenly spaced. */
function thinned(values: Float64Array): number[] {
  const count = Math.min(values.length, mostListed);
  return Array.from({ length: count }, (_, index) => values[Math.floor((index * values.length) / count)]!);
}

/** The mean loss over the first batches of the validation set, as in llm.c. The ranks share the rows of each batch. */
async function meanOfBatches({ trained, ranks }: Run, validation: ValidationBatches, signal: AbortSignal | undefined) {
  const { loader, batch, sequence, batches, different } = validation;
  if (loader.canSeek ?? true) loader.seek(startPosition);
  const sumOf = (count: number) =>
    summedLoss(trained.model, { batch, sequence, batches: count }, () => loader.next(), signal);
  // A repeated batch has the same loss: each batch is computed once and weighted by its number of repeats.
  const [rounds, more] = [Math.floor(batches / different), batches % different];
  const first = await sumOf(more);
  const rest = await sumOf(rounds > 0 ? different - more : 0);
  const ofRank = first &&
    rest && {
      // As text, because JSON has no NaN.
      sum: String((rounds + 1) * first.sum + rounds * rest.sum),
      targets: (rounds + 1) * first.targets + rounds * rest.targets,
    };
  const all = await gather(ranks, ofRank);
  const parts = all.slice(0, validation.ranks);
  const tokens = parts.reduce((sum, { targets }) => sum + targets, 0);
  if (tokens === 0) throw gpt2Error`the validation has no target to predict: all are -1`;
  return { loss: parts.map(({ sum }) => Number(sum)).reduce((sum, part) => sum + part) / tokens, tokens };
}

/** Generates a text from an empty prompt. Equal weights, seed and step give the same text. */
async function sampleText(
  cache: KeyValueCache,
  { options, tokenizer }: Run,
  step: number,
  signal: AbortSignal | undefined,
): Promise<string> {
  const tokens: number[] = [];
  const generation = {
    prompts: [promptIds('', tokenizer!)],
    tokens: sampleTokens,
    seed: (options.seed + step) % 2 ** 32,
    stopAt: tokenizer!.endOfText,
  };
  for await (const next of generate(cache, generation)) {
    if (signal?.aborted) throw new InterruptedError(`stopped after ${tokens.length} tokens`);
    if ('token' in next) tokens.push(next.token);
  }
  return textOf(tokens, tokenizer!);
}
