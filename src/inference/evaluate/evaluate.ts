// Measures how well a model predicts a data set: loss, perplexity, and bits per byte, which compares models with different
// tokenizers. A run's validation uses the same sequences and mean (mean-loss.ts).
import { dirname } from 'node:path';
import { checkArguments, checkGiven, whole } from '../../base/checks/given.ts';
import { gpt2Error } from '../../base/errors.ts';
import { openSequences } from '../../data/batches/sequences.ts';
import { readDataset, readDatasetTokenizer } from '../../data/shards/dataset-file.ts';
import type { Model } from '../../model/model.ts';
import { byteLengths, chosenTokenizer, noByteLengths, type Tokenizer } from '../../tokenizer/tokenizer.ts';
import { isSameTokenizer } from '../../tokenizer/tokenizer-file.ts';
import { checkSequence } from '../fit-memory.ts';
import { type SequenceLosses, sequenceLosses, type WorkOptions } from './mean-loss.ts';

export interface EvaluateOptions extends Omit<WorkOptions, 'signal'> {
  readonly shards: readonly string[];
  /** The tokenizer of the shards, or the name of a built-in one: "gpt2" or "bytes". Default: unknown; no bits per byte. */
  readonly tokenizer?: Tokenizer | string | undefined;
  /** Sequences that run together; the results do not depend on this number. */
  readonly batch: number;
  readonly sequence: number;
  /** Number of tokens to predict, in whole sequences (one or more) spread evenly over the set. Default and maximum: all tokens. */
  readonly tokens?: number | undefined;
  /** Called with one-line notices about deviations from the options, and about the number of tokens left out. */
  readonly notice?: ((text: string) => void) | undefined;
}

export interface Evaluation extends Omit<SequenceLosses, 'losses'> {
  readonly perplexity: number;
  /** Undefined if the text of the predicted tokens has no bytes, or the tokenizer is unknown. */
  readonly bitsPerByte: number | undefined;
  readonly sequences: number;
  readonly batch: number;
  readonly sequence: number;
}

/**
 * Measures a model's loss on a data set: on all whole sequences, or on evenly spread sequences with `tokens` tokens together.
 * @param model must have activations for batch x sequence tokens
 * @throws UsageError without shards, for an unknown tokenizer, or if `sequence` is over the model's context; Gpt2Error for a
 * shard that is damaged, has a token outside the vocabulary or was made with another tokenizer, or if every shard is too
 * short for one sequence
 * @example
 * const shards = findShards('data/tinyshakespeare', 'val');
 * const { loss, bitsPerByte } = await evaluate(model, { shards, tokenizer: 'gpt2', batch: 4, sequence: 64 });
 */
export async function evaluate(model: Model, options: EvaluateOptions): Promise<Evaluation> {
  checkArguments({ model });
  checkGiven(
    options,
    { shards: 'texts', batch: whole(1), sequence: whole(1) },
    { tokenizer: 'text or object', tokens: whole(1), notice: 'function', progress: 'function', ranks: 'object' },
    { spellings: new Map([['batches', 'tokens']]) },
  );
  const { shards, batch, sequence, notice = () => {}, progress, ranks } = options;
  const tokenizer = options.tokenizer === undefined ? undefined : chosenTokenizer(options.tokenizer);
  const { vocabularySize } = model.config;
  checkSequence(sequence, model.config);
  using set = openSequences({ shards, sequence, tokens: options.tokens ?? 'all', vocabularySize });
  if (set.count === 0) {
    throw gpt2Error`${shards[0]}: no shard has ${sequence} + 1 tokens, one sequence; give a shorter --seq`;
  }
  for (const text of set.notices) notice(text);
  for (const folder of tokenizer ? new Set(shards.map(dirname)) : []) {
    const dataset = readDataset(folder);
    const found = dataset && readDatasetTokenizer(folder, dataset);
    if (!found || isSameTokenizer(found, tokenizer!)) continue;
    throw gpt2Error`${folder} was made with another tokenizer (${found.name}) than tokenizer ${tokenizer!.name}, which would count other bytes; give readDatasetTokenizer(folder)`;
  }
  const lengths = tokenizer && byteLengths(tokenizer, vocabularySize);
  if (!tokenizer) notice('no bits per byte: the tokenizer is not known');
  else if (!lengths) notice(`no bits per byte: ${noByteLengths(tokenizer)}`);
  const { losses, ...measured } = await sequenceLosses(model, set, { batch, lengths, ranks, progress });
  const { loss, tokens, bytes = 0 } = measured;
  const bitsPerByte = bytes > 0 ? (loss * tokens) / Math.LN2 / bytes : undefined;
  return { ...measured, perplexity: Math.exp(loss), bitsPerByte, sequences: losses.length, batch, sequence };
}
