// The loss of each sequence of a set, and their mean. Neither depends on how sequences are divided into batches and between
// ranks: each sequence is summed alone, in double, and the sums are added in the order of the set.
import { InterruptedError } from '../../base/errors.ts';
import type { SequenceSet } from '../../data/batches/sequences.ts';
import type { Model } from '../../model/model.ts';
import type { Ranks } from '../../ranks/ranks.ts';
import { runBatch } from './mean-loss.ts';

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

/** @throws InterruptedError, on every rank, if any rank's `signal` is aborted; ShapeError if a sequence does not fit */
export async function sequenceLosses(
  model: Model,
  set: SequenceSet,
  options: SequenceOptions,
): Promise<SequenceLosses> {
  const { lengths, ranks, signal } = options;
  const ofRank = await lossesOfRank(model, set, options);
  // Send losses as base64: JSON lacks NaN, and needs many characters for all digits of a double.
  const sent = signal?.aborted ? null : { ...ofRank, losses: Buffer.from(ofRank.losses.buffer).toString('base64') };
  const all = ranks ? await ranks.allGather(sent) : [sent];
  if (!all.every((each) => each !== null)) throw new InterruptedError('stopped before all sequences were evaluated');
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
