// HellaSwag (Zellers et al. 2019) by completion, as llm.c and lm-eval score it: the model chooses the completion it finds least
// surprising, by the sum of its tokens' losses (acc) or by their mean (acc_norm). The file is read in shards/multiple-choice.ts.
//
// The figures do not depend on how many rows are run at a time: a row's width follows from its own length, and what lies behind
// its tokens is not seen by them (attention looks back only) and not counted. Each op computes a row by itself in an order that
// the number of rows does not change; test/evaluate/hellaswag.test.ts holds every library and dtype to the same bits.
import { Gpt2Error, InterruptedError, UsageError } from '../errors.ts';
import type { Model } from '../model/model.ts';
import type { Ranks } from '../ranks/ranks.ts';
import { type Question, readQuestions } from '../shards/multiple-choice.ts';
import { runBatch } from './mean-loss.ts';

/** Rows are padded to a multiple of it, or to the sequence. */
const widthStep = 32;
/** CUDA plans attention's workspace for rows of a multiple of it. */
const workspaceStep = 128;
const upTo = (step: number, length: number): number => Math.ceil(length / step) * step;

/** A context with one completion. */
interface Row {
  readonly question: number;
  readonly completion: number;
  readonly tokens: Uint16Array;
  /** Tokens of it that are the context's. */
  readonly context: number;
  /** Tokens the model is run on, with padding. */
  readonly width: number;
}

/** A file that was read for a model. */
export interface Hellaswag {
  readonly path: string;
  readonly questions: readonly Question[];
  /** Those of one width together. */
  readonly rows: readonly Row[];
  /** Rows that were too long: the beginning of their context is left out. */
  readonly cut: number;
}

export interface HellaswagScore {
  /** Share of questions whose right completion has the least sum of losses. */
  readonly acc: number;
  /** The least mean. */
  readonly accNorm: number;
  readonly correct: number;
  readonly correctNorm: number;
  readonly questions: number;
}

/**
 * Reads a file and cuts its questions into rows of at most `sequence` + 1 tokens.
 * @throws Gpt2Error for a damaged file, a token the model lacks, or a completion longer than a sequence
 */
export function readHellaswag(
  path: string,
  { sequence, vocabularySize }: { sequence: number; vocabularySize: number },
): Hellaswag {
  const questions = readQuestions(path);
  let cut = 0;
  const rows = questions.flatMap(({ context, completions }, question) =>
    completions.map((tokens, completion): Row => {
      const place = `completion ${completion} of question ${question} in ${path}`;
      if (tokens.length > sequence) {
        throw new Gpt2Error(
          `${place} has ${tokens.length} tokens, more than a sequence of ${sequence}; take a longer --seq`,
        );
      }
      // The last token is predicted, not run.
      const kept = context.slice(-(sequence + 1 - tokens.length));
      if (kept.length < context.length) cut++;
      const row = Uint16Array.from([...kept, ...tokens]);
      const outside = row.find((token) => token >= vocabularySize);
      if (outside !== undefined) {
        throw new Gpt2Error(
          `${place} has the token ${outside}, beyond the vocabulary of ${vocabularySize}; the file was made for another model: name one of GPT-2's vocabulary with --model`,
        );
      }
      const width = Math.min(sequence, upTo(widthStep, row.length - 1));
      return { question, completion, tokens: row, context: kept.length, width };
    }),
  );
  return { path, questions, rows: rows.sort((a, b) => a.width - b.width), cut };
}

export interface ScoreOptions {
  /** The model's activations hold batch x sequence tokens; as many rows are run at a time as fit. */
  readonly batch: number;
  /** As the file was read with. */
  readonly sequence: number;
  /** Told after each batch. */
  readonly progress?: (done: number, all: number) => void;
  /** Ranks that run the rows in turn; each then has the score of all. */
  readonly ranks?: Ranks;
  /** Aborting it, at any rank, ends the asking. */
  readonly signal?: AbortSignal;
}

/** @throws UsageError for a sequence over the model's context; InterruptedError after `signal` */
export async function scoreHellaswag(
  model: Model,
  hellaswag: Hellaswag,
  options: ScoreOptions,
): Promise<HellaswagScore> {
  const sums = await completionLosses(model, hellaswag, options);
  let [correct, correctNorm] = [0, 0];
  for (const [index, { label, completions }] of hellaswag.questions.entries()) {
    if (least(sums[index]!) === label) correct++;
    if (least(sums[index]!.map((sum, completion) => sum / completions[completion]!.length)) === label) correctNorm++;
  }
  const questions = hellaswag.questions.length;
  return { acc: correct / questions, accNorm: correctNorm / questions, correct, correctNorm, questions };
}

/** For each question the summed loss of each completion's tokens. */
export async function completionLosses(
  model: Model,
  { questions, rows }: Hellaswag,
  { batch, sequence, progress, ranks, signal }: ScoreOptions,
): Promise<Float64Array[]> {
  if (sequence > model.config.context) {
    throw new UsageError(
      `--seq ${sequence} is over the model's context of ${model.config.context} positions; take a shorter --seq`,
    );
  }
  const sums = questions.map(({ completions }) => new Float64Array(completions.length));
  const losses = new Float32Array(batch * sequence);
  for (let done = 0, turn = 0; done < rows.length && !signal?.aborted; turn++) {
    const { width } = rows[done]!;
    const most = Math.min(
      Math.floor((batch * sequence) / width),
      Math.floor((batch * upTo(workspaceStep, sequence)) / upTo(workspaceStep, width)),
    );
    const together = rows.slice(done, done + most).filter((row) => row.width === width);
    done += together.length;
    if (ranks && turn % ranks.count !== ranks.rank) continue;
    await runRows(model, together, width, losses);
    for (const [index, { question, completion, tokens, context }] of together.entries()) {
      // The loss at a position is that of the token behind it.
      const first = index * width + context - 1;
      const count = tokens.length - context;
      for (let at = first; at < first + count; at++) sums[question]![completion]! += losses[at]!;
    }
    progress?.(done, rows.length);
  }
  // A row is one rank's: elsewhere it has left zero.
  // JSON has no word for NaN.
  const own = signal?.aborted ? null : sums.map((each) => Array.from(each, String));
  const all = ranks ? await ranks.allGather(own) : [own];
  if (!all.every((each) => each !== null)) throw new InterruptedError('stopped before all questions were asked');
  return ranks ? sums.map((each, question) => each.map((_, index) => sumOf(all, question, index))) : sums;
}

const sumOf = (all: readonly string[][][], question: number, completion: number): number =>
  all.reduce((sum, theirs) => sum + Number(theirs[question]![completion]), 0);

/** Leaves each position's loss in `losses`, row after row. */
async function runRows(model: Model, rows: readonly Row[], width: number, losses: Float32Array): Promise<void> {
  const inputs = new Int32Array(rows.length * width);
  const targets = new Int32Array(rows.length * width);
  for (const [index, { tokens }] of rows.entries()) {
    inputs.set(tokens.subarray(0, -1), index * width);
    targets.set(tokens.subarray(1), index * width);
  }
  const activations = model.activations.at(rows.length, width);
  await runBatch(model, activations, () => ({ inputs, targets }), losses.subarray(0, inputs.length));
}

/** Where the least is, the first of equal ones; -1 if none is a number. */
function least(values: Float64Array): number {
  let found = -1;
  for (let index = 0; index < values.length; index++) {
    if (values[index]! < (values[found] ?? Number.POSITIVE_INFINITY)) found = index;
  }
  return found;
}
