// The recipe "modern": options that are given override what it sets.
import { expect, it } from 'vitest';
import { completeOptions } from '../../src/options/check.ts';
import { withSources } from '../../src/options/read.ts';
import type { TrainOptions } from '../../src/options/table.ts';

it.each<[TrainOptions, keyof TrainOptions]>([
  [{ optimizer: 'adamw', learningRate: 1e-3 }, 'muonLearningRate'],
  [{ head: 'tied' }, 'headLearningRate'],
  [{ schedule: 'cosine' }, 'decayFraction'],
])('with %o it does not set %s, which has no effect', (given, name) => {
  expect(withSources({ recipe: 'modern' })).toHaveProperty(name);
  const options = withSources({ recipe: 'modern', ...given });
  expect(options).not.toHaveProperty(name);
  expect(() => completeOptions(options, 'cpu')).not.toThrow();
});
