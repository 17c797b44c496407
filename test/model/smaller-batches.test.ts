// A model made for one batch runs any smaller one: in the same memory and the same workspace, which kernels that cut their
// work otherwise at another size must not find too small.
import { expect, it } from 'vitest';
import { createModel, Device, initializeWeights, meanLoss } from '../../src/index.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { sizesOf } from '../../src/ops/cases/op-case.ts';
import { describeBackends } from '../support/backends.ts';

const config = { layers: 1, channels: 128, heads: 2, context: 256, vocabularySize: 100 };

describeBackends(
  'a model for 3 x 256',
  (_, kind, dtype) => {
    const smaller = sizesOf('batch sequence', '3x160 3x256 2x256 2x224 1x256 1x31');
    it.each(smaller)('runs $batch x $sequence', async ({ batch, sequence }) => {
      using device = Device.open({ kind, dtype });
      const model = createModel(device, config, { B: 3, T: 256, purpose: 'inference' });
      initializeWeights(model, 42);
      const random = new Random(1);
      const ids = () => random.integers(batch * sequence, config.vocabularySize);
      const loss = await meanLoss(model, { batch, sequence, batches: 1 }, () => ({ inputs: ids(), targets: ids() }));
      // As good as nothing is known: all tokens alike.
      expect(Math.abs(loss - Math.log(config.vocabularySize))).toBeLessThan(0.2);
    });
  },
  { dtypes: ['fp32', 'bf16', 'fp8'] },
);
