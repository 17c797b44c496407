// The model that second-optimizer.test.ts and its ranks train: a model whose layers' matrices have another optimizer.
import type { Parameter } from '../../src/model/parameters.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import type { Optimizer } from '../../src/optimizer/optimizer.ts';
import { tinyConfig } from '../support/tiny-model.ts';

export const config = tinyConfig;
export const steps = 3;
/** The sequences of a step, which 1, 2 and 3 ranks can share. */
export const microBatches = 6;
export const sizes = { batch: 2, sequence: 16, gradientClip: 0 };

export const isOfLayer = ({ kind, name }: Pick<Parameter, 'kind' | 'name'>): boolean =>
  kind === 'matrix' && name.startsWith('h.');

/** AdamW for embeddings and vectors, another for the layers' matrices. */
export function mixed(other: Optimizer): (parameter: Parameter) => Optimizer {
  const adamw = new AdamW({ weightDecay: 0.1 });
  return (parameter) => (isOfLayer(parameter) ? other : adamw);
}

export function microBatch(step: number, index: number) {
  const random = new Random(100 + microBatches * step + index);
  const tokens = () => random.integers(sizes.batch * sizes.sequence, config.vocabularySize);
  return { inputs: tokens(), targets: tokens() };
}
