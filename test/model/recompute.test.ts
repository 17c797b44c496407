// Recomputing activations in backward changes no bit of a step, and takes the memory that the plan says. A model made for one batch
// runs any smaller one: in the same memory and the same workspace, which kernels that cut their work otherwise at another size must
// not find too small.
import { expect, it } from 'vitest';
import { AdamW, Device, type ModelConfig, meanLoss, Trainer, weightsHash } from '../../src/index.ts';
import { type Recompute, recomputeNames } from '../../src/model/activation-tables.ts';
import type { GivenParts } from '../../src/model/architecture.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { sizesOf } from '../../src/ops/cases/op-case.ts';
import { divisors, trainingPlan } from '../../src/train/plan/plan-memory.ts';
import { describeBackends } from '../support/backends.ts';
import { modernOptimizer, modernParts } from '../support/modern-models.ts';
import { drawnModel } from '../support/tiny-model.ts';

const models: Record<string, GivenParts> = {
  ...{ 'GPT-2': {}, 'GPT-2 with RMSNorm': { norm: 'rmsnorm' }, 'modern GPT': modernParts },
};
const sizes: ModelConfig = { layers: 3, channels: 128, heads: 2, context: 64, vocabularySize: 200 };
/** Under sanitizers a step's time is that of its parameters. */
const ofCpu = { channels: 64, heads: 1 };

describeBackends(
  'recompute',
  (_, kind, dtype) => {
    it.each(Object.keys(models).flatMap((model) => [1, 2].map((accumulation) => ({ model, accumulation }))))(
      'gives the bits of keeping everything: $model, $accumulation micro-batches',
      async ({ model: name, accumulation }) => {
        const [B, T] = [2, 18];
        const config: ModelConfig = { ...sizes, ...(kind === 'cpu' ? ofCpu : {}), ...models[name] };
        const optimizer =
          name === 'modern GPT' ? modernOptimizer(accumulation * B * T) : new AdamW({ weightDecay: 0.1 });
        const trained = async (recompute: Recompute) => {
          using device = Device.open({ kind, dtype, accumulates: accumulation > 1 });
          const model = drawnModel(device, config, { B, T, purpose: 'training', recompute });
          const trainer = new Trainer(model, { batch: B, sequence: T, accumulation, optimizer, gradientClip: 1 });
          const random = new Random(3);
          const tokens = () => random.integers(B * T, config.vocabularySize);
          const steps = [];
          for (let step = 0; step < 2; step++) {
            steps.push(await trainer.step(step, 1e-3, () => ({ inputs: tokens(), targets: tokens() })));
          }
          const planned = trainingPlan(device, config, { B, T, optimizer, rows: B * accumulation, recompute });
          expect(Object.fromEntries(planned)).toEqual(Object.fromEntries(device.allocated));
          const { activations } = Object.fromEntries(planned) as { activations: number };
          return { steps, weights: await weightsHash(model), activations };
        };
        const [none, gelu, block] = [await trained('none'), await trained('gelu'), await trained('block')];
        for (const other of [gelu, block]) {
          expect(other.steps).toEqual(none.steps);
          expect(other.weights).toBe(none.weights);
        }
        expect(none.activations).toBeGreaterThan(gelu.activations);
        expect(gelu.activations).toBeGreaterThan(block.activations);
      },
    );
  },
  { dtypes: ['fp32', 'bf16', 'fp8'] },
);

describeBackends(
  'a model for 3 x 256',
  (_, kind, dtype) => {
    const config = { layers: 1, channels: 128, heads: 2, context: 256, vocabularySize: 100 };
    const smaller = sizesOf('batch sequence', '3x160 3x256 2x256 2x224 1x256 1x31');
    it.each(smaller)('runs $batch x $sequence', async ({ batch, sequence }) => {
      using device = Device.open({ kind, dtype });
      const model = drawnModel(device, config, { B: 3, T: 256, purpose: 'inference' });
      const random = new Random(1);
      const ids = () => random.integers(batch * sequence, config.vocabularySize);
      const loss = await meanLoss(model, { batch, sequence, batches: 1 }, () => ({ inputs: ids(), targets: ids() }));
      // As good as nothing is known: all tokens alike.
      expect(Math.abs(loss - Math.log(config.vocabularySize))).toBeLessThan(0.2);
    });
  },
  { dtypes: ['fp32', 'bf16', 'fp8'] },
);

it('names every way', () => {
  expect(recomputeNames).toEqual(['none', 'gelu', 'block']);
  expect(divisors(12)).toEqual([1, 2, 3, 4, 6, 12]);
});
