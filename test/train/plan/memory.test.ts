// Computes memory for a device that is not here: bf16, whose gradients take twice as much when they accumulate, and fp8, which
// halves some activations and keeps copies of weights.
import { expect, it } from 'vitest';
import { AdamW, type Device, type Dtype, presetConfig } from '../../../src/index.ts';
import { recomputeNames } from '../../../src/model/activation-tables.ts';
import { totalOf } from '../../../src/model/memory.ts';
import { checkMemory, neededBytes, type PlanSizes, trainingPlan } from '../../../src/train/plan/plan-memory.ts';
import { windowedParts } from '../../support/modern-models.ts';
import { parseOptions } from '../../support/options.ts';
import { refusalOf } from '../../support/refusal.ts';

/** A GPU that has so many GiB free, as far as plans ask it. */
const gpuWith = (gib: number, dtype: Dtype = 'bf16') =>
  ({
    ...{ dtype, elementType: 'bf16', gradientType: 'bf16', description: { library: 'cuda' } },
    memory: () => ({ available: gib * 2 ** 30, total: 80 * 2 ** 30 }),
    call: () => {},
  }) as unknown as Device;

const d48 = presetConfig('d48')!;
const T = 1024;
const optimizer = new AdamW({ weightDecay: 0 });
const needed = (sizes: Partial<PlanSizes>) => neededBytes(gpuWith(80), d48, { B: 1, T, optimizer, ...sizes }) / 2 ** 30;

/** The refusal of a batch in this much memory; undefined: it fits. */
const refusal = (gib: number, sizes: Omit<PlanSizes, 'optimizer'>) =>
  refusalOf(() => checkMemory(gpuWith(gib), d48, { optimizer, ...sizes }));

it('gradients that accumulate are of fp32', () => {
  const gradients = (rows: number) => trainingPlan(gpuWith(80), d48, { B: 2, T, optimizer, rows }).get('gradients')!;
  // The vectors' are of fp32 either way.
  expect(gradients(4) / gradients(2)).toBeGreaterThan(1.99);
});

it('advises no smaller batch that would not fit for accumulating', () => {
  const gib = (needed({ B: 4 }) + needed({ B: 4, rows: 8 })) / 2;
  for (const B of [5, 8, 64]) {
    const said = refusal(gib, { B, T })!;
    const advice = /; (.*) fits$/.exec(said)?.[1];
    expect(advice, said).toBeDefined();
    for (const flags of advice!.split(', or ')) {
      const { batch = B, totalBatch = B * T, recompute } = parseOptions(flags);
      expect(totalBatch).toBe(B * T);
      expect(refusal(gib, { B: batch as number, T, rows: totalBatch / T, recompute }), flags).toBeUndefined();
    }
  }
});

it('where a step fits only in one go, it is the step that is too large', () => {
  const gib = (needed({ recompute: 'block' }) + needed({ recompute: 'block', rows: 2 })) / 2;
  expect(refusal(gib, { B: 64, T })).toMatch(
    /; no batch fits a step of this size: take a smaller --batch and --total-batch, a shorter --seq, a smaller --model, or end what else runs on the GPU$/,
  );
  expect(refusal(needed({ recompute: 'block' }) - 0.1, { B: 64, T })).toMatch(/; no batch fits: take a shorter --seq/);
});

const large = { d12: 64, d24: 32, d48: 8 };
it.each(Object.entries(large).flatMap(([name, B]) => recomputeNames.map((recompute) => [name, recompute, B] as const)))(
  'fp8 takes less than bf16, and little more where weights outweigh activations: %s, --recompute %s',
  (name, recompute, B) => {
    /** The part by which a plan in fp8 exceeds that in bf16. */
    const more = (B: number, activation: 'gelu' | 'relu2') => {
      const config = { ...presetConfig(name)!, activation };
      const planned = (dtype: Dtype) =>
        totalOf(trainingPlan(gpuWith(80, dtype), config, { B, T, optimizer, recompute }));
      return planned('fp8') / planned('bf16') - 1;
    };
    // 'block' keeps no activations that FP8 could halve: what is left are the head's weight and one layer's activations.
    // With 'none' each layer keeps the activation's output and GELU's derivative in one byte each.
    expect(more(B, 'gelu')).toBeLessThan({ none: -0.09, gelu: 0, block: 0.005 }[recompute]);
    // Both copies of the squared ReLU's output together are as large as the output in bf16.
    expect(more(B, 'relu2')).toBeLessThan(recompute === 'none' && name !== 'd48' ? 0 : 0.02);
    // 'block' keeps so little that the head's two copies in FP8 are more than that of d12.
    expect(more(1, 'gelu')).toBeLessThan(recompute !== 'block' ? 0.03 : 0.04);
    expect(more(1, 'relu2')).toBeLessThan(0.04);
  },
);

it('memory is linear in the sequence, to 65,536 tokens of d12 on one GPU', () => {
  const config = { ...presetConfig('d12')!, ...windowedParts, context: 65_536, endOfText: 50_256 };
  const at = (T: number) => trainingPlan(gpuWith(80), config, { B: 1, T, optimizer });
  const [long, short] = [at(65_536), at(16_384)];
  for (const kind of ['activations', 'activation gradients']) expect(long.get(kind)).toBe(4 * short.get(kind)!);
  expect(totalOf(long)).toBeLessThan(80 * 2 ** 30);
});
