// The differences between the configurations of two runs.
import { expect, it } from 'vitest';
import type { Configuration } from '../../src/options/table.ts';
import { configurationDifferences } from '../../src/report/compare/reference.ts';

const run = { schedule: 'constant', finalLearningRateFraction: 1, decayFraction: 0.2, beta2: 0.95, seed: 1 };
const as = (configuration: object) => configuration as Configuration;

it('a run from before an option was added had its default, and constant rates are equal by any schedule', () => {
  const old = { schedule: 'cosine', finalLearningRateFraction: 1, seed: 2 };
  expect(configurationDifferences(as(run), as(old))).toEqual([{ field: 'seed', run: 1, reference: 2 }]);
  const longer = { ...run, steps: 20 };
  expect(configurationDifferences(as(longer), as({ ...run, steps: 10 }))).toEqual([
    { field: 'steps', run: 20, reference: 10 },
  ]);
  const falling = { ...old, seed: 1, finalLearningRateFraction: 0.1 };
  expect(configurationDifferences(as(run), as(falling)).map(({ field }) => field)).toEqual([
    'schedule',
    'finalLearningRateFraction',
  ]);
});
