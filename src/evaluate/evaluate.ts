// Measures how well a model predicts a data set: loss, perplexity, and bits per byte, which compares models with different
// tokenizers. Batches and their mean (mean-loss.ts) are those of a run's validation.
import { openLoader, planValidation } from '../batches/loader.ts';
import { checkGiven } from '../checks/given.ts';
import { whole } from '../checks/number.ts';
import { Gpt2Error, UsageError } from '../errors.ts';
import type { Model } from '../model/model.ts';
import type { Ranks } from '../ranks/ranks.ts';
import {
  builtInTokenizers,
  byteLengths,
  noByteLengths,
  type Tokenizer,
  tokenizerNamed,
} from '../tokenizer/tokenizer.ts';
import { checkSequence } from './fit.ts';
import { summedLoss } from './mean-loss.ts';

export interface EvaluateOptions {
  /** Paths of the shards, in order. */
  readonly shards: readonly string[];
  /** The tokenizer of the shards, or the name of a built-in one: "gpt2" or "bytes". Without it there are no bits per byte. */
  readonly tokenizer?: Tokenizer | string | undefined;
  /** Sequences in a batch; fewer if the shortest shard holds fewer. */
  readonly batch: number;
  readonly sequence: number;
  /** Batches from the start. Default, and at most: all whole batches. */
  readonly batches?: number | undefined;
  /** Receives differences from the options, such as fewer batches. */
  readonly notice?: ((text: string) => void) | undefined;
  /** Called after each batch. */
  readonly progress?: ((done: number, all: number) => void) | undefined;
  /** Ranks that share the batches; each gets the result of all. */
  readonly ranks?: Ranks | undefined;
}

export interface Evaluation {
  /** Mean over the predicted tokens, in nats. */
  readonly loss: number;
  readonly perplexity: number;
  /** Undefined if the text of the predicted tokens has no bytes, or the tokenizer is unknown. */
  readonly bitsPerByte: number | undefined;
  /** Predicted tokens. */
  readonly tokens: number;
  /** Bytes of their text; end of text has none. */
  readonly bytes: number | undefined;
  readonly batches: number;
  readonly batch: number;
  readonly sequence: number;
}

/** Runs the model over whole batches of a data set, in file order. @throws as for programs (for-programs.ts); messages name flags */
export async function evaluate(model: Model, options: EvaluateOptions): Promise<Evaluation> {
  checkGiven(
    options,
    { shards: 'texts', batch: whole(1), sequence: whole(1) },
    { tokenizer: 'text or object', batches: whole(1), notice: 'function', progress: 'function', ranks: 'object' },
  );
  const { shards, sequence, notice = () => {}, progress, ranks } = options;
  if (shards.length === 0) throw new UsageError('shards names no file: give the paths of one or more shards');
  const tokenizer = givenTokenizer(options.tokenizer);
  const { vocabularySize } = model.config;
  checkSequence(sequence, model.config);
  const { batch, batches: all } = planValidation({ shards, batch: options.batch, sequence });
  if (batch === 0) {
    throw new Gpt2Error(`${shards[0]}: a shard has fewer than ${sequence} + 1 tokens; give a shorter --seq`);
  }
  if (batch < options.batch)
    notice(`batches of ${batch}: the shortest shard does not hold ${options.batch} sequences of ${sequence}`);
  using loader = openLoader({ shards, batch, sequence, order: 'file', seed: 0, vocabularySize });
  const batches = Math.min(options.batches ?? all, all);
  if (batches < (options.batches ?? 0)) notice(`all ${all} whole batches are used: there are no ${options.batches}`);
  const lengths = tokenizer && byteLengths(tokenizer, vocabularySize);
  if (!tokenizer) notice('no bits per byte: the tokenizer is not known');
  else if (!lengths) notice(`no bits per byte: ${noByteLengths(tokenizer)}`);
  let bytes = 0;
  const { rank, count } = ranks ?? { rank: 0, count: 1 };
  let done = 0;
  const next = () => {
    done++;
    const read = loader.next();
    if (lengths) for (const token of read.targets) bytes += lengths[token]!;
    return read;
  };
  const own = Math.ceil(Math.max(0, batches - rank) / count);
  const summed = await summedLoss(model, { batch, sequence, batches: own }, () => {
    if (done > 0) progress?.(done, batches);
    while (done % count !== rank) next();
    return next();
  });
  while (done < batches) next();
  const tokens = batches * batch * sequence;
  const loss = ((await ranks?.sum(summed)) ?? summed) / tokens;
  return {
    loss,
    perplexity: Math.exp(loss),
    bitsPerByte: bytes > 0 ? (loss * tokens) / Math.LN2 / bytes : undefined,
    tokens,
    bytes: lengths && bytes,
    ...{ batches, batch, sequence },
  };
}

function givenTokenizer(given: Tokenizer | string | undefined): Tokenizer | undefined {
  if (typeof given !== 'string') return given;
  const named = tokenizerNamed(given);
  if (named) return named;
  const names = builtInTokenizers.map(({ name }) => name).join(', ');
  throw new UsageError(
    `tokenizer takes one of ${names}, or what readDatasetTokenizer() or readTokenizer() returns, not ${JSON.stringify(given)}`,
  );
}
