// Checks a batch and copies it to the device: a `nextBatch` that a program passes may return anything.
import { ShapeError } from '../../base/errors.ts';
import type { ActivationSet } from '../../model/activations.ts';
import type { Model } from '../../model/model.ts';
import { firstOutside } from '../shards/shard.ts';
import type { Batch } from './loader.ts';

/**
 * @param where where the batch belongs, at the start of errors
 * @returns the number of targets that are not -1
 * @throws ShapeError unless inputs and targets are B x T tokens each, all in the model's vocabulary, or a target is -1
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
  return countTargets(batch.targets);
}

/** The number of targets that are not -1. */
function countTargets(targets: Int32Array): number {
  let count = 0;
  for (const target of targets) if (target >= 0) count++;
  return count;
}

/** Copies a batch into `activations`. @returns and @throws as `checkBatch` */
export function writeBatch(model: Model, activations: ActivationSet, batch: Batch): number {
  const targets = checkBatch(model, activations, batch);
  activations.model.tokens.write(batch.inputs);
  activations.model.targets.write(batch.targets);
  return targets;
}

const kindOf = (value: unknown): string =>
  Object(value) === value ? (value as object).constructor.name : String(value);
