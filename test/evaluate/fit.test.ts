// What a model that is only run takes, and the batch that fits: the plan is what is allocated, refusals name a batch that fits.
import { expect, it, vi } from 'vitest';
import { checkInferenceMemory, chooseInferenceBatch } from '../../src/inference/evaluate/fit-batch.ts';
import { presetConfig } from '../../src/model/config.ts';
import { inferencePlan } from '../../src/model/memory.ts';
import { createModel } from '../../src/model/model.ts';
import { Device } from '../../src/native/device.ts';
import { describeBackends } from '../support/backends.ts';
import { modernParts } from '../support/modern-models.ts';

const small = { layers: 3, channels: 48, heads: 4, context: 128, vocabularySize: 1000 };

describeBackends(
  'the plan for inference',
  (_, kind, dtype) => {
    it.each([
      [1, 1, small],
      [3, 128, small],
      [40, 100, small],
      [3, 128, { ...small, ...modernParts }],
    ])('is what %d x %d takes of %j', (B, T, config) => {
      using device = Device.open({ kind, dtype });
      createModel(device, config, { B, T, purpose: 'inference' });
      expect(Object.fromEntries(inferencePlan(device, config, { B, T }))).toEqual(Object.fromEntries(device.allocated));
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);

const device = Device.open({ kind: 'cpu' });
const d12 = presetConfig('d12')!;
const refusal = (B: number, T: number, maxMemory?: number): string | undefined => {
  try {
    checkInferenceMemory(device, d12, { B, T, maxMemory });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
};

it.each([
  [1024, 0.9],
  [1024, 2],
  [512, 1.1],
  [64, 1],
])('of sequences of %d in %d GiB refuses with the largest batch that fits, and auto picks it', (T, maxMemory) => {
  const message = refusal(1000, T, maxMemory);
  const batch = Number(/; --batch (\d+) fits$/.exec(message!)?.[1]);
  expect(batch, message).toBeGreaterThan(0);
  expect(message).toMatch(
    new RegExp(`^--batch 1000 with --seq ${T} needs [\\d.]+ GiB of memory, --max-memory ${maxMemory} allows no`),
  );
  expect(refusal(batch, T, maxMemory)).toBeUndefined();
  expect(refusal(batch + 1, T, maxMemory)).toContain(`; --batch ${batch} fits`);
  // No more than make a CPU faster.
  expect(chooseInferenceBatch(device, d12, { T, maxMemory })).toBe(Math.min(batch, 4096 / T));
});

it('what fits in no batch is told so', () => {
  expect(refusal(8, 1024, 0.5)).toMatch(/no batch fits: take a shorter --seq, or give a larger --max-memory$/);
  expect(() => chooseInferenceBatch(device, d12, { T: 1024, maxMemory: 0.5 })).toThrow(
    /^--batch auto: not one sequence of --seq 1024 fits, --max-memory 0\.5 allows no more; take a shorter --seq/,
  );
});

it('counts what is free, no more than a container leaves', () => {
  expect(refusal(60_000, 1024)).toMatch(/GiB of memory, [\d.]+ GiB of [\d.]+ GiB are free; --batch \d+ fits$/);
  const taken = process.memoryUsage.rss();
  vi.spyOn(process, 'constrainedMemory').mockReturnValue(2 ** 30 + taken);
  const inContainer = /^--batch 8 with --seq 1024 needs 1\.1 GiB of memory, (0\.9|1\.0) GiB of [\d.]+ GiB are free/;
  expect(refusal(8, 1024)).toMatch(inContainer);
  vi.restoreAllMocks();
  expect(refusal(8, 1024)).toBeUndefined();
});
