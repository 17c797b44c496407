// Checks a batch and copies it to the device. The check is needed because a user's function `nextBatch` may return anything.
import { ShapeError } from '../../base/errors.ts';
import type { ActivationSet } from '../../model/activations.ts';
import { firstKeys, type Windows } from '../../model/mask.ts';
import { checkFilled, type Model } from '../../model/model.ts';
import type { Tensor } from '../../native/tensor.ts';
import { firstOutside } from '../shards/shard.ts';
import type { Batch } from './loader.ts';

/**
 * Checks a batch. @param where names the batch, at the start of errors
 * @returns the number of targets that are not -1
 * @throws ShapeError unless inputs and targets are B x T tokens each, all in the model's vocabulary; a target may be -1
 */
export function checkBatch(
  { config }: Model,
  { B, T }: Pick<ActivationSet, 'B' | 'T'>,
  batch: Batch,
  where = '',
): number {
  for (const name of ['inputs', 'targets'] as const) {
    const tokens: unknown = batch?.[name];
    if (!(tokens instanceof Int32Array)) {
      throw new ShapeError(`${where}a batch's ${name} must be an Int32Array, not ${kindOf(tokens)}`);
    }
    if (tokens.length !== B * T) {
      throw new ShapeError(`${where}a batch's ${name} must be ${B} x ${T} = ${B * T} tokens, not ${tokens.length}`);
    }
    const index = firstOutside(tokens, config.vocabularySize, name === 'targets');
    if (index < 0) continue;
    throw new ShapeError(
      `${where}a batch's ${name} hold the token ${tokens[index]} at ${index}, outside the model's vocabulary of ${config.vocabularySize}`,
    );
  }
  return batch.targets.reduce((count, target) => (target >= 0 ? count + 1 : count), 0);
}

/** Runs `checkFilled` and `checkBatch`, then copies the batch. @param windows default: the model's @returns as `checkBatch` */
export function writeBatch(model: Model, activations: ActivationSet, batch: Batch, windows?: Windows): number {
  checkFilled(model);
  const targets = checkBatch(model, activations, batch);
  for (const [tensor, values] of uploadsOf(model, activations, batch, windows)) tensor.write(values);
  return targets;
}

/** Pairs of a device tensor and the values to copy to it: tokens, targets and, with windows or masks, each query's first key. */
export function uploadsOf(
  { config }: Model,
  { model: { tokens, targets, firstLong, firstShort }, T }: ActivationSet,
  { inputs, targets: wanted }: Batch,
  windows?: Windows,
): (readonly [Tensor, Int32Array])[] {
  const first = firstKeys(config, inputs, T, windows);
  const all = [
    [tokens, inputs],
    [targets, wanted],
    [firstLong, first.firstLong],
    [firstShort, first.firstShort],
  ] as const;
  return all.flatMap(([tensor, values]) => (tensor && values ? [[tensor, values] as const] : []));
}

const kindOf = (value: unknown): string =>
  Object(value) === value ? (value as object).constructor.name : String(value);
