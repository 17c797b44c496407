// Checks a batch and copies it to the device: a `nextBatch` that a program passes may return anything.
import { ShapeError } from '../../base/errors.ts';
import type { ActivationSet } from '../../model/activations.ts';
import type { Model } from '../../model/model.ts';
import { firstOutside } from '../shards/shard.ts';
import type { Batch } from './loader.ts';

/** @throws ShapeError unless inputs and targets are B x T tokens each, all in the model's vocabulary */
export function checkBatch({ config }: Model, { B, T }: Pick<ActivationSet, 'B' | 'T'>, batch: Batch): void {
  for (const name of ['inputs', 'targets'] as const) {
    const tokens: unknown = batch?.[name];
    if (!(tokens instanceof Int32Array)) {
      throw new ShapeError(`a batch's ${name} must be an Int32Array, not ${kindOf(tokens)}`);
    }
    if (tokens.length !== B * T) {
      throw new ShapeError(`a batch's ${name} must be ${B} x ${T} = ${B * T} tokens, not ${tokens.length}`);
    }
    const index = firstOutside(tokens, config.vocabularySize);
    if (index < 0) continue;
    throw new ShapeError(
      `a batch's ${name} hold the token ${tokens[index]} at ${index}, outside the model's vocabulary of ${config.vocabularySize}`,
    );
  }
}

/** Copies a batch into `activations`. @throws as `checkBatch` */
export function writeBatch(model: Model, activations: ActivationSet, batch: Batch): void {
  checkBatch(model, activations, batch);
  activations.model.tokens.write(batch.inputs);
  activations.model.targets.write(batch.targets);
}

const kindOf = (value: unknown): string =>
  Object(value) === value ? (value as object).constructor.name : String(value);
