// The GPU's memory: flat over thousands of steps, as much as planned, and what does not fit is refused. scripts/test-gpu runs
// this file alone, because other processes' memory would count.
import { expect, it } from 'vitest';
import { presetConfig } from '../../src/model/config.ts';
import { totalOf } from '../../src/model/memory.ts';
import { Device } from '../../src/native/device.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import { checkMemory, trainingPlan } from '../../src/train/plan/memory.ts';
import { describeCuda, hasCudaDtype } from '../support/backends.ts';
import { batches, makeTrainer, small } from '../support/gpu-training.ts';

describeCuda('memory', () => {
  it('stays flat over 5,000 steps', { timeout: 300_000 }, async () => {
    using device = Device.open({ kind: 'cuda', dtype: 'bf16' });
    const trainer = makeTrainer(device, { ...small, layers: 1, channels: 64, heads: 1 }, 2, 32, 1);
    const next = batches(3, 64, small.vocabularySize);
    const measured: { rss: number; available: number }[] = [];
    for (let step = 0; step < 5000; step++) {
      await trainer.step(step, 1e-4, next);
      if (step === 500 || step === 4999) {
        globalThis.gc?.();
        measured.push({ rss: process.memoryUsage.rss(), available: device.memory().available });
      }
    }
    expect(measured[1]!.available).toBe(measured[0]!.available);
    expect(measured[1]!.rss - measured[0]!.rss).toBeLessThan(8 * 2 ** 20);
  });

  it.each((['bf16', 'fp8'] as const).filter(hasCudaDtype))(
    'the plan is what the driver counts, and a batch that does not fit is refused: %s',
    (dtype) => {
      using device = Device.open({ kind: 'cuda', dtype });
      const config = presetConfig('d12')!;
      const before = device.memory().available;
      const sizes = { B: 8, T: 1024, optimizer: new AdamW({ weightDecay: 0.1 }) };
      makeTrainer(device, config, sizes.B, sizes.T, 1);
      const used = before - device.memory().available;
      expect(Math.abs(totalOf(trainingPlan(device, config, sizes)) / used - 1), `${used} bytes used`).toBeLessThan(
        0.02,
      );
      expect(() => checkMemory(device, config, { ...sizes, B: 4096 })).toThrow(
        /^--batch 4096 with --seq 1024 needs [\d.]+ GiB of memory, [\d.]+ GiB of [\d.]+ GiB are free; --batch \d+ --total-batch 4194304 fits$/,
      );
    },
  );
});
