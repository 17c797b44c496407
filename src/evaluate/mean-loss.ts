// Mean loss of a model over batches of tokens, without touching anything that training keeps between steps.
import type { Batch } from '../batches/loader.ts';
import { InterruptedError } from '../errors.ts';
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
 * @throws InterruptedError if `signal` is aborted before it is done
 */
export async function summedLoss(
  model: Model,
  { batch: B, sequence: T, batches }: Sizes,
  nextBatch: () => Batch,
  signal?: AbortSignal,
): Promise<number> {
  const activations = model.activations.at(B, T);
  const { tokens, targets, losses } = activations.model;
  const values = new Float32Array(B * T);
  let sum = 0;
  for (let index = 0; index < batches; index++) {
    if (signal?.aborted) throw new InterruptedError(`stopped after ${index} of ${batches} batches`);
    const batch = nextBatch();
    tokens.write(batch.inputs);
    targets.write(batch.targets);
    forward(model, activations);
    headForward(model, activations);
    await model.device.finished();
    for (const loss of losses.readInto(values)) sum += loss;
  }
  return sum;
}

/**
 * The loss of each token but the first, given those before it: [tokens - 1].
 * @param tokens at most one more than the model's activations were made for
 */
export async function lossesOf(model: Model, tokens: ArrayLike<number>): Promise<Float32Array> {
  const all = Int32Array.from(tokens);
  const activations = model.activations.at(1, all.length - 1);
  activations.model.tokens.write(all.subarray(0, -1));
  activations.model.targets.write(all.subarray(1));
  forward(model, activations);
  headForward(model, activations);
  await model.device.finished();
  return activations.model.losses.readInto(new Float32Array(all.length - 1));
}
