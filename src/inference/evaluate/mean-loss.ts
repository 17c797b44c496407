// The mean loss of a model over batches of tokens. Does not change the state that training keeps between steps.
import { checkArguments, checkGiven, whole } from '../../base/checks/given.ts';
import { gpt2Error, InterruptedError, ShapeError } from '../../base/errors.ts';
import { writeBatch } from '../../data/batches/batch.ts';
import type { Batch } from '../../data/batches/loader.ts';
import type { ActivationSet } from '../../model/activations.ts';
import { forward } from '../../model/forward.ts';
import { headForward } from '../../model/head.ts';
import type { Model } from '../../model/model.ts';

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
  const { sum, targets } = await summedLoss(model, sizes, nextBatch);
  if (targets === 0) throw gpt2Error`the batches have no target to predict: all are -1`;
  return sum / targets;
}

/**
 * The sum of all losses in nats, and the number of targets that are not -1. The sum is in double, so its rounding is negligible,
 * and sums over some of the batches can be added.
 * @throws ShapeError as `meanLoss`; InterruptedError if `signal` is aborted before the last batch
 */
export async function summedLoss(
  model: Model,
  { batch: B, sequence: T, batches }: Sizes,
  nextBatch: () => Batch,
  signal?: AbortSignal,
): Promise<{ sum: number; targets: number }> {
  const activations = model.activations.at(B, T);
  const values = new Float32Array(B * T);
  let [sum, targets] = [0, 0];
  for (let index = 0; index < batches; index++) {
    if (signal?.aborted) throw new InterruptedError(`stopped after ${index} of ${batches} batches`);
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
