// Computes a model's losses: the mean over batches, the loss of each token of a text, the loss of each sequence of a set. No function
// here changes the state that training keeps between steps.
import { checkArguments, checkGiven, whole } from '../../base/checks/given.ts';
import { gpt2Error, InterruptedError, ShapeError } from '../../base/errors.ts';
import { writeBatch } from '../../data/batches/batch.ts';
import type { Batch } from '../../data/batches/loader.ts';
import type { SequenceSet } from '../../data/batches/sequences.ts';
import type { ActivationSet } from '../../model/activations.ts';
import { forward } from '../../model/forward.ts';
import { headForward } from '../../model/head.ts';
import type { Model } from '../../model/model.ts';
import type { Ranks } from '../../ranks/ranks.ts';

/** `batch` x `sequence` tokens (B x T) must fit in the model's activations. */
interface Sizes {
  readonly batch: number;
  readonly sequence: number;
  readonly batches: number;
}

/**
 * Mean loss per target that is not -1, in nats, over `batches` batches of B x T tokens from `nextBatch`. As in training, the softmax
 * of an untied head includes the rows that pad the vocabulary to a multiple of 128; `logits` leaves these rows out.
 * @throws ShapeError for a batch that is not B x T tokens of the vocabulary, or does not fit in the model's activations; Gpt2Error
 * if all targets are -1
 * @example const loss = await meanLoss(model, { batch: 4, sequence: 64, batches: 2 }, () => loader.next());
 */
export async function meanLoss(model: Model, sizes: Sizes, nextBatch: () => Batch): Promise<number> {
  checkArguments({ model });
  checkGiven(sizes, { batch: whole(1), sequence: whole(1), batches: whole(1) }, {});
  checkArguments({ nextBatch });
  const { sum, targets } = (await summedLoss(model, sizes, nextBatch))!;
  if (targets === 0) throw gpt2Error`the batches have no target to predict: all are -1`;
  return sum / targets;
}

/**
 * The sum of all losses in nats, and the number of targets that are not -1. The sum is in double, so its rounding is negligible,
 * and sums over some of the batches can be added. Null if `signal` is aborted before the last batch.
 * @throws ShapeError as `meanLoss`
 */
export async function summedLoss(
  model: Model,
  { batch: B, sequence: T, batches }: Sizes,
  nextBatch: () => Batch,
  signal?: AbortSignal,
): Promise<{ sum: number; targets: number } | null> {
  const activations = model.activations.at(B, T);
  const values = new Float32Array(B * T);
  let [sum, targets] = [0, 0];
  for (let index = 0; index < batches; index++) {
    if (signal?.aborted) return null;
    targets += await runBatch(model, activations, nextBatch, values);
    for (const loss of values) sum += loss;
  }
  return { sum, targets };
}

/**
 * The loss in nats of each token but the first, predicted from the earlier tokens: [tokens - 1]. For an untied head, see `meanLoss`.
 * @param tokens at least two, at most T + 1 for activations of T tokens
 * @param targets tokens to predict, one fewer than `tokens`; default: `tokens` without the first. The loss of a target of -1 is 0.
 * @throws ShapeError for other lengths, or a token outside the vocabulary
 * @example const [afterHello] = await lossesOf(model, encode('Hello world'));
 */
export async function lossesOf(
  model: Model,
  tokens: ArrayLike<number>,
  targets = Array.from(tokens).slice(1) as ArrayLike<number>,
): Promise<Float32Array> {
  checkArguments({ model, tokens, targets });
  const all = Int32Array.from(tokens, Number);
  const T = all.length - 1;
  if (T < 1) throw new ShapeError(`a loss needs at least 2 tokens, not ${all.length}`);
  const wanted = Int32Array.from(targets, Number);
  for (const [given, held, name] of [
    [tokens, all, 'token'],
    [targets, wanted, 'target'],
  ] as const) {
    const bent = held.findIndex((token, index) => token !== given[index]);
    if (bent >= 0) throw new ShapeError(`${name} ${bent} of the text is ${given[bent]}, which is not a token id`);
  }
  const activations = model.activations.at(1, T);
  const losses = new Float32Array(T);
  await runBatch(model, activations, () => ({ inputs: all.subarray(0, -1), targets: wanted }), losses);
  return losses;
}

/** Computes the loss at each position into `losses`. @returns the number of targets that are not -1 @throws as `writeBatch` */
export function runBatch(model: Model, activations: ActivationSet, nextBatch: () => Batch, losses: Float32Array) {
  return model.activations.inTurn(async () => {
    const targets = writeBatch(model, activations, nextBatch());
    forward(model, activations);
    headForward(model, activations);
    await model.device.finished();
    activations.model.losses.readInto(losses);
    return targets;
  });
}

/** The ranks that share an evaluation, the signal that stops the evaluation, and a callback for its progress. */
export interface WorkOptions {
  /** Ranks that share the work; all get the same result. */
  readonly ranks?: Ranks | undefined;
  /** Aborting the signal on any rank stops all ranks. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each batch with the number of finished sequences and of all sequences of this rank. */
  readonly progress?: ((done: number, all: number) => void) | undefined;
}

interface SequenceOptions extends WorkOptions {
  /** Number of sequences that run together, at most as many as the model's activations hold. */
  readonly batch: number;
  /** Number of bytes of each token's text, by token id; undefined if unknown. */
  readonly lengths: Uint8Array | undefined;
}

export interface SequenceLosses {
  /** Mean over the predicted tokens, in nats. */
  readonly loss: number;
  /** Standard error of `loss`, from the spread of the sequences' losses; undefined for a single sequence. */
  readonly standardError: number | undefined;
  readonly tokens: number;
  /** Bytes of the predicted tokens' text, without end of text; undefined if unknown. */
  readonly bytes: number | undefined;
  readonly losses: Float64Array;
}

/** The values of all ranks; `value` is null if this rank was stopped. @throws InterruptedError on every rank if a rank was stopped */
export async function gather<V>(ranks: Ranks | undefined, value: V | null): Promise<V[]> {
  const all = ranks ? await ranks.allGather(value) : [value];
  if (all.every((each) => each !== null)) return all;
  throw new InterruptedError('stopped before all losses were computed');
}

/**
 * The loss of each sequence of a set, and their mean. Neither depends on how sequences are divided into batches and between ranks:
 * each sequence is summed alone, in double, and the sums are added in the order of the set.
 * @throws InterruptedError, on every rank, if any rank's `signal` is aborted; ShapeError if a sequence does not fit
 */
export async function sequenceLosses(
  model: Model,
  set: SequenceSet,
  options: SequenceOptions,
): Promise<SequenceLosses> {
  const { lengths, ranks, signal } = options;
  const ofRank = await lossesOfRank(model, set, options);
  // Send losses as base64: JSON lacks NaN, and needs many characters for all digits of a double.
  const encoded = Buffer.from(ofRank.losses.buffer).toString('base64');
  const all = await gather(ranks, signal?.aborted ? null : { ...ofRank, losses: encoded });
  const decoded = (text: string) => new Float64Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
  const losses = Float64Array.from(all.flatMap(({ losses }) => [...decoded(losses)]));
  const mean = meanOf(losses);
  const variance = meanOf(losses.map((loss) => (loss - mean) ** 2));
  return {
    loss: mean,
    standardError: losses.length > 1 ? Math.sqrt(variance / (losses.length - 1)) : undefined,
    tokens: losses.length * set.sequence,
    bytes: lengths && all.reduce((sum, { bytes }) => sum + bytes, 0),
    losses,
  };
}

const meanOf = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The losses of this rank's share of the set, which may be empty. */
async function lossesOfRank(model: Model, set: SequenceSet, options: SequenceOptions) {
  const { batch, lengths, ranks, signal, progress } = options;
  const { sequence, count } = set;
  const { rank, count: parts } = ranks ?? { rank: 0, count: 1 };
  const [first, end] = [rank, rank + 1].map((part) => Math.floor((part * count) / parts)) as [number, number];
  const losses = new Float64Array(end - first);
  const values = new Float32Array(Math.min(batch, losses.length) * sequence);
  let bytes = 0;
  for (let done = 0; done < losses.length && !signal?.aborted; ) {
    const rows = Math.min(batch, losses.length - done);
    const read = set.read(first + done, rows);
    if (lengths) for (const token of read.targets) bytes += lengths[token]!;
    const found = values.subarray(0, rows * sequence);
    await runBatch(model, model.activations.at(rows, sequence), () => read, found);
    for (let at = 0; at < found.length; at++) losses[done + Math.floor(at / sequence)]! += found[at]!;
    done += rows;
    progress?.(done, losses.length);
  }
  return { losses: losses.map((sum) => sum / sequence), bytes };
}
