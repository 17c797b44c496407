// Targets of -1: a padded batch of short sequences has the loss and the gradient of these sequences alone, however the batch is
// divided into micro-batches. Ranks: test/end-to-end/program-runs.test.ts.
import { expect, it, onTestFinished } from 'vitest';
import { type Batch, Device, lossesOf, meanLoss, Trainer } from '../../../src/index.ts';
import type { Architecture } from '../../../src/model/architecture.ts';
import { floats } from '../../../src/ops/cases/case-numbers.ts';
import { noUpdate } from '../../../src/optimizer/assign.ts';
import { describeBackends } from '../../support/backends.ts';
import { relativeError } from '../../support/tensors.ts';
import { drawnModel } from '../../support/tiny-model.ts';

const sequence = 32;
/** One sequence is left out whole, so that a micro-batch can have no target. */
const lengths = [17, 32, 0, 5];
const all = lengths.length * sequence;
const counted = lengths.reduce((sum, length) => sum + length);
const id = (at: number, by: number) => (at * by + 3) % 100;
const inputs = Int32Array.from({ length: all }, (_, at) => id(at, 37));
const isTarget = (at: number) => at % sequence < lengths[Math.floor(at / sequence)]!;
const targets = Int32Array.from(inputs, (_, at) => (isTarget(at) ? id(at, 53) : -1));
const masked = { inputs, targets };
const part = ({ inputs, targets }: Batch, first: number, count: number): Batch => {
  return { inputs: inputs.subarray(first, first + count), targets: targets.subarray(first, first + count) };
};

/**
 * Largest relative differences of losses and gradients. In bf16 a CPU rounds the factors of rows, which differ, and a GPU gradients;
 * in FP8 the head's gradients have 2 or 3 bits of fraction, and rows share scales with other rows.
 */
const limits = { fp32: [1e-6, 2e-6], bf16: [1e-5, 1e-2], fp8: [1e-5, 5e-2] } as const;
const heads: readonly Partial<Architecture>[] = [{}, { head: 'untied', softcap: 15 }];

describeBackends(
  'masked targets',
  (_, kind, dtype) => {
    const [lossLimit, gradientLimit] = limits[dtype];

    /** The loss and gradient of a step; each step has a device of its own, because bf16 accumulates in another type. */
    async function step(parts: Partial<Architecture>, T: number, nextBatches: readonly Batch[]) {
      const device = Device.open({ kind, dtype, accumulates: true });
      onTestFinished(() => device.close());
      const config = { layers: 2, channels: 64, heads: 2, context: sequence, vocabularySize: 100, ...parts };
      const [B, accumulation] = [nextBatches[0]!.inputs.length / T, nextBatches.length];
      const model = drawnModel(device, config, { B, T, purpose: 'training' });
      const options = { batch: B, sequence: T, accumulation, optimizer: noUpdate, gradientClip: 0 };
      const trainer = new Trainer(model, options);
      let next = 0;
      const { loss, norm, targets } = await trainer.step(0, 1, () => nextBatches[next++]!);
      const factor = (B * T * accumulation) / targets;
      const { matrices, vectors } = trainer.gradients;
      const gradient = [matrices, vectors].flatMap((tensor) => [...floats(tensor)].map((value) => value * factor));
      return { loss, norm, targets, gradient, model };
    }

    it.each(heads)('are as if the sequences were short: %j', async (parts) => {
      const { loss, norm, targets, gradient, model } = await step(parts, sequence, [masked]);
      const [sum, wanted] = [[0], new Float64Array(gradient.length)];
      for (const [row, length] of lengths.entries()) {
        if (length === 0) continue;
        const alone = await step(parts, length, [part(masked, row * sequence, length)]);
        sum[0]! += (alone.loss * length) / counted;
        for (const [at, value] of alone.gradient.entries()) wanted[at]! += (value * length) / counted;
      }
      expect(targets).toBe(counted);
      expect(Math.abs(loss / sum[0]! - 1)).toBeLessThan(lossLimit);
      expect(relativeError(gradient, wanted)).toBeLessThan(gradientLimit);
      expect(Math.abs(norm / Math.hypot(...wanted) - 1)).toBeLessThan(gradientLimit);
      const sizes = { batch: lengths.length, sequence, batches: 1 };
      expect(Math.abs((await meanLoss(model, sizes, () => masked)) / loss - 1)).toBeLessThan(lossLimit);
      const first = part(masked, 0, sequence);
      const losses = await lossesOf(model, [...first.inputs, 0], first.targets);
      expect([...losses].map((value) => value > 0)).toEqual([...first.targets].map((target) => target >= 0));
    });

    it.each(heads)('are the same in 1, 2 and 4 micro-batches: %j', async (parts) => {
      const whole = await step(parts, sequence, [masked]);
      for (const count of [2, 4]) {
        const size = all / count;
        const batches = Array.from({ length: count }, (_, micro) => part(masked, micro * size, size));
        const { loss, gradient } = await step(parts, sequence, batches);
        expect(Math.abs(loss / whole.loss - 1)).toBeLessThan(lossLimit);
        expect(relativeError(gradient, whole.gradient)).toBeLessThan(gradientLimit);
      }
    });

    it('a step or an evaluation without any is refused', async () => {
      const none = { inputs, targets: new Int32Array(all).fill(-1) };
      await expect(step({}, sequence, [none])).rejects.toThrow('step 0 has no target to learn from: all are -1');
      const { model } = await step({}, sequence, [masked]);
      const sizes = { batch: lengths.length, sequence, batches: 1 };
      await expect(meanLoss(model, sizes, () => none)).rejects.toThrow('the batches have no target to predict');
    });
  },
  { dtypes: ['fp32', 'bf16', 'fp8'] },
);
