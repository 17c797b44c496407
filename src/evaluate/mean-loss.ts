// Mean loss of a model over batches of tokens, without touching anything that training keeps between steps.
import { writeBatch } from '../batches/batch.ts';
import type { Batch } from '../batches/loader.ts';
import { InterruptedError, ShapeError } from '../errors.ts';
import type { ActivationSet } from '../model/activations.ts';
import { forward } from '../model/forward.ts';
import { headForward } from '../model/head.ts';
import type { Model } from '../model/model.ts';

/** What a mean is over: B and T are no larger than the model's activations were made for. */
interface Sizes {
  readonly batch: number;
  readonly sequence: number;
  readonly batches: number;
}

/** Mean loss per token over `batches` batches of B x T tokens taken from `nextBatch`. @throws as `summedLoss` */
export async function meanLoss(model: Model, sizes: Sizes, nextBatch: () => Batch): Promise<number> {
  const { batch, sequence, batches } = sizes;
  return (await summedLoss(model, sizes, nextBatch)) / (batches * batch * sequence);
}

/**
 * The sum of which `meanLoss` is the mean. In double it hardly rounds: in parts it comes to the same.
 * @throws ShapeError for a batch that is not B x T tokens of the vocabulary; InterruptedError if `signal` is aborted before
 * the last batch
 */
export async function summedLoss(
  model: Model,
  { batch: B, sequence: T, batches }: Sizes,
  nextBatch: () => Batch,
  signal?: AbortSignal,
): Promise<number> {
  const activations = model.activations.at(B, T);
  const values = new Float32Array(B * T);
  let sum = 0;
  for (let index = 0; index < batches; index++) {
    if (signal?.aborted) throw new InterruptedError(`stopped after ${index} of ${batches} batches`);
    for (const loss of await runBatch(model, activations, nextBatch, values)) sum += loss;
  }
  return sum;
}

/**
 * The loss of each token but the first, given those before it: [tokens - 1].
 * @param tokens at least two, at most one more than the model's activations were made for
 * @throws ShapeError for other lengths, or a token outside the vocabulary
 */
export async function lossesOf(model: Model, tokens: ArrayLike<number>): Promise<Float32Array> {
  const all = Int32Array.from(tokens);
  const T = all.length - 1;
  if (T < 1) throw new ShapeError(`a loss needs at least 2 tokens, not ${all.length}`);
  const bent = all.findIndex((token, index) => token !== tokens[index]);
  if (bent >= 0) throw new ShapeError(`token ${bent} of the text is ${tokens[bent]}, which is not a token id`);
  const activations = model.activations.at(1, T);
  const batch = { inputs: all.subarray(0, -1), targets: all.subarray(1) };
  return runBatch(model, activations, () => batch, new Float32Array(T));
}

/** Computes the loss at each position into `losses`. @throws as `writeBatch` */
export function runBatch(
  model: Model,
  activations: ActivationSet,
  nextBatch: () => Batch,
  losses: Float32Array,
): Promise<Float32Array> {
  return model.activations.inTurn(async () => {
    writeBatch(model, activations, nextBatch());
    forward(model, activations);
    headForward(model, activations);
    await model.device.finished();
    return activations.model.losses.readInto(losses);
  });
}
