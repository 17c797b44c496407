// The mean loss of a model over batches of tokens. State that training keeps between steps stays unchanged.
import { checkGiven } from '../../base/checks/given.ts';
import { whole } from '../../base/checks/number.ts';
import { InterruptedError, ShapeError } from '../../base/errors.ts';
import { writeBatch } from '../../data/batches/batch.ts';
import type { Batch } from '../../data/batches/loader.ts';
import type { ActivationSet } from '../../model/activations.ts';
import { forward } from '../../model/forward.ts';
import { headForward } from '../../model/head.ts';
import type { Model } from '../../model/model.ts';

/** B x T tokens must fit in the model's activations. */
interface Sizes {
  readonly batch: number;
  readonly sequence: number;
  readonly batches: number;
}

/**
 * Mean loss per token, in nats, over `batches` batches of B x T tokens from `nextBatch`.
 * @throws ShapeError for a batch that is not B x T tokens of the vocabulary, or does not fit in the model's activations
 * @example const loss = await meanLoss(model, { batch: 4, sequence: 64, batches: 2 }, () => loader.next());
 */
export async function meanLoss(model: Model, sizes: Sizes, nextBatch: () => Batch): Promise<number> {
  checkGiven(sizes, { batch: whole(1), sequence: whole(1), batches: whole(1) }, {});
  const { batch, sequence, batches } = sizes;
  return (await summedLoss(model, sizes, nextBatch)) / (batches * batch * sequence);
}

/**
 * The sum of all losses. It is in double and hardly rounds, so partial sums add up to the same value.
 * @throws ShapeError as `meanLoss`; InterruptedError if `signal` is aborted before the last batch
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
 * The loss of each token but the first, given the tokens before it, in nats: [tokens - 1].
 * @param tokens at least two, at most T + 1, where T is of the model's activations
 * @throws ShapeError for other lengths, or a token outside the vocabulary
 * @example const [afterHello] = await lossesOf(model, encode('Hello world'));
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
