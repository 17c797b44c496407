// Scores HellaSwag (Zellers et al. 2019) by completion, as llm.c and lm-eval do: the model chooses the completion with the
// smallest sum of token losses (acc) or the smallest mean (acc_norm). data/shards/multiple-choice.ts reads the file.
//
// Scores do not depend on the number of rows in a batch: a row's width depends only on its length, and its padding is neither
// attended to (attention is causal) nor counted. Each op computes a row in an order that does not depend on other rows;
// test/evaluate/hellaswag.test.ts checks that every library and dtype gives the same bits.
import { argumentKinds, checkArguments, checkGiven, whole } from '../../base/checks/given.ts';
import { gpt2Error, onCommandLine } from '../../base/errors.ts';
import { batchOfRows } from '../../data/batches/loader.ts';
import { type Question, readQuestions } from '../../data/shards/multiple-choice.ts';
import type { Model } from '../../model/model.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { checkSequence } from '../fit-memory.ts';
import { gather, runBatch, type WorkOptions } from './mean-loss.ts';

/** Rows are padded to a multiple of this number of tokens, at most to the sequence length. */
const widthStep = 32;
/** The CUDA library sizes attention's workspace for rows whose length is rounded up to a multiple of this number of tokens. */
const workspaceStep = 128;
const upTo = (step: number, length: number): number => Math.ceil(length / step) * step;

/** The tokens of a question's context, followed by one of the question's completions. */
interface Row {
  readonly question: number;
  readonly completion: number;
  readonly tokens: Uint16Array;
  readonly context: number;
  /** Number of input tokens of the model, with padding. */
  readonly width: number;
}

/** The questions of a HellaSwag file, as token ids for a model. */
export interface Hellaswag {
  readonly path: string;
  readonly questions: readonly Question[];
  /** One row per completion of each question, sorted by width. */
  readonly rows: readonly Row[];
  /** Number of rows that were too long, so that the beginning of their context was cut off. */
  readonly cut: number;
}

export interface HellaswagScore {
  /** Fraction of questions whose right completion has the smallest sum of losses. */
  readonly acc: number;
  /** Fraction of questions whose right completion has the smallest mean loss. */
  readonly accNorm: number;
  readonly correct: number;
  readonly correctNorm: number;
  readonly questions: number;
}

export interface QuestionSizes {
  readonly sequence: number;
  readonly vocabularySize: number;
  readonly tokenizer?: Tokenizer | undefined;
}

/**
 * Reads a file of questions into rows of at most `sequence` + 1 tokens, one per completion.
 * @throws Gpt2Error for a damaged file, a tokenizer that is not built in, a token outside the vocabulary, or a completion longer
 * than a sequence
 * @example
 * const sizes = { sequence: 64, vocabularySize: 50257 };
 * const hellaswag = readHellaswag('data/hellaswag/hellaswag_val.bin', sizes);
 */
export function readHellaswag(path: string, sizes: QuestionSizes): Hellaswag {
  checkGiven(sizes, { sequence: whole(1), vocabularySize: whole(1, 65536) }, { tokenizer: argumentKinds.tokenizer });
  const { sequence, vocabularySize, tokenizer } = sizes;
  if (tokenizer?.file !== undefined) {
    throw gpt2Error`${path} has GPT-2's tokens, but the model's tokenizer is another (${tokenizer.name}); name a model with GPT-2's vocabulary${onCommandLine(' with --model')}`;
  }
  const questions = readQuestions(path);
  let cut = 0;
  const rows = questions.flatMap(({ context, completions }, question) =>
    completions.map((tokens, completion): Row => {
      const place = `completion ${completion} of question ${question} in ${path}`;
      if (tokens.length > sequence) {
        throw gpt2Error`${place} has ${tokens.length} tokens, more than a sequence of ${sequence}; give a longer --seq`;
      }
      // The last token is only a target, not an input, so a row has up to `sequence` + 1 tokens.
      const kept = context.slice(-(sequence + 1 - tokens.length));
      if (kept.length < context.length) cut++;
      const row = Uint16Array.from([...kept, ...tokens]);
      const outside = row.find((token) => token >= vocabularySize);
      if (outside !== undefined) {
        throw gpt2Error`${place} has the token ${outside}, outside the vocabulary of ${vocabularySize}; name a model with GPT-2's vocabulary${onCommandLine(' with --model')}`;
      }
      const width = Math.min(sequence, upTo(widthStep, row.length - 1));
      return { question, completion, tokens: row, context: kept.length, width };
    }),
  );
  return { path, questions, rows: rows.sort((a, b) => a.width - b.width), cut };
}

export interface ScoreOptions extends WorkOptions {
  /** The model's activations must hold `batch` x `sequence` tokens; shorter rows run together as far as they fit. */
  readonly batch: number;
  readonly sequence: number;
}

/**
 * Scores a model on questions.
 * @throws UsageError if `sequence` is over the model's context; InterruptedError after `signal`
 * @example
 * const hellaswag = readHellaswag('data/hellaswag/hellaswag_val.bin', { sequence: 64, vocabularySize: 50257 });
 * const { acc, accNorm } = await scoreHellaswag(model, hellaswag, { batch: 4, sequence: 64 });
 */
export async function scoreHellaswag(model: Model, file: Hellaswag, options: ScoreOptions): Promise<HellaswagScore> {
  const optional = { progress: 'function', ranks: 'object', signal: argumentKinds.signal } as const;
  checkArguments({ model });
  checkGiven(options, { batch: whole(1), sequence: whole(1) }, optional);
  checkArguments({ hellaswag: file });
  const sums = await completionLosses(model, file, options);
  let [correct, correctNorm] = [0, 0];
  for (const [index, { label, completions }] of file.questions.entries()) {
    if (least(sums[index]!) === label) correct++;
    if (least(sums[index]!.map((sum, completion) => sum / completions[completion]!.length)) === label) correctNorm++;
  }
  const questions = file.questions.length;
  return { acc: correct / questions, accNorm: correctNorm / questions, correct, correctNorm, questions };
}

/** The sum of token losses, in nats, of each completion of each question: [question][completion]. */
export async function completionLosses(model: Model, { questions, rows }: Hellaswag, options: ScoreOptions) {
  const { batch, sequence, progress, ranks, signal } = options;
  checkSequence(sequence, model.config);
  const sums = questions.map(({ completions }) => completions.map(() => 0));
  const losses = new Float32Array(batch * sequence);
  for (let done = 0, turn = 0; done < rows.length && !signal?.aborted; turn++) {
    const { width } = rows[done]!;
    const fitting = (step: number) => Math.floor((batch * upTo(step, sequence)) / upTo(step, width));
    const most = Math.min(fitting(1), fitting(workspaceStep));
    const together = rows.slice(done, done + most).filter((row) => row.width === width);
    done += together.length;
    if (ranks && turn % ranks.count !== ranks.rank) continue;
    const found = batchOfRows(together.length, width, (row) => together[row]!.tokens);
    const activations = model.activations.at(together.length, width);
    await runBatch(model, activations, () => found, losses.subarray(0, together.length * width));
    for (const [index, { question, completion, tokens, context }] of together.entries()) {
      // `losses` at a position holds the loss of the next token, so a completion's losses begin at the last token of its context.
      const first = index * width + context - 1;
      const count = tokens.length - context;
      for (let at = first; at < first + count; at++) sums[question]![completion]! += losses[at]!;
    }
    progress?.(done, rows.length);
  }
  // Each sum was computed on one rank and is 0 on all others. Send the sums as text, because JSON has no NaN.
  const ofRank = sums.map((each) => each.map(String));
  const ofRanks = await gather(ranks, signal?.aborted ? null : ofRank);
  const sumOf = (question: number, completion: number) =>
    ofRanks.reduce((sum, theirs) => sum + Number(theirs[question]![completion]), 0);
  return sums.map((each, question) => each.map((_, completion) => sumOf(question, completion)));
}

/** Index of the smallest value; of equal values, the first. -1 if all are NaN. */
const least = (values: readonly number[]): number =>
  values.reduce((found, value, index) => (value < (values[found] ?? Number.POSITIVE_INFINITY) ? index : found), -1);
