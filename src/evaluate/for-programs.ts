// `evaluate` and `readHellaswag` as programs call them: errors and notices name options, not the flags of the command line.
import type { Model } from '../model/model.ts';
import { forPrograms, withoutFlag, worded, wordedNotice } from '../options/wording.ts';
import { type EvaluateOptions, type Evaluation, evaluate as measure } from './evaluate.ts';
import { type Hellaswag, type QuestionSizes, readHellaswag as readQuestions } from './hellaswag.ts';

const ofQuestions = (text: string) => forPrograms(withoutFlag(withoutFlag(text, '--model'), '--hellaswag'));

/**
 * Runs the model over the whole sequences of a data set, or as many, spread evenly, as hold `tokens`.
 * @param model its activations hold batch x sequence tokens
 * @throws UsageError without shards, for an unknown tokenizer, or if `sequence` is over the model's context; Gpt2Error for a shard
 * that is damaged or has a token outside the vocabulary, or if all are too short for one sequence
 * @example
 * const shards = findShards('data/tinyshakespeare', 'val');
 * const { loss, bitsPerByte } = await evaluate(model, { shards, tokenizer: 'gpt2', batch: 4, sequence: 64 });
 */
export async function evaluate(model: Model, options: EvaluateOptions): Promise<Evaluation> {
  return worded(() => measure(model, wordedNotice(options)));
}

/**
 * Reads a file of questions into rows of at most `sequence` + 1 tokens, one per completion.
 * @throws Gpt2Error for a damaged file, a tokenizer that is not built in, a token outside the vocabulary, or a completion longer than
 * a sequence
 * @example
 * const sizes = { sequence: 64, vocabularySize: 50257 };
 * const hellaswag = readHellaswag('data/hellaswag/hellaswag_val.bin', sizes);
 */
export function readHellaswag(path: string, sizes: QuestionSizes): Hellaswag {
  return worded(() => readQuestions(path, sizes), ofQuestions);
}
