// The GPU's memory: flat over thousands of steps, as much as planned, and what does not fit is refused. scripts/test-gpu runs
// this file alone, because other processes' memory would count.
import v8 from 'node:v8';
import vm from 'node:vm';
import { expect, it } from 'vitest';
import { presetConfig } from '../../src/model/config.ts';
import { totalOf } from '../../src/model/memory.ts';
import { Device } from '../../src/native/device.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import { checkMemory, trainingPlan } from '../../src/train/plan/plan-memory.ts';
import { describeCuda, hasCudaDtype } from '../support/backends.ts';
import { batches, makeTrainer, small } from '../support/gpu-training.ts';

describeCuda('memory', () => {
  // V8's heap takes 20 MiB more in its first 3,000 steps, and then varies: it is compared by what is in use, and all memory of the
  // process by the least of several measurements. That memory grows in jumps of 1 to 2 MiB: by up to 5 MiB between steps 3,000
  // and 8,000, and by no more from there to step 48,000.
  it('stays flat after 8,000 steps', { timeout: 300_000 }, async () => {
    v8.setFlagsFromString('--expose-gc');
    const collectGarbage = vm.runInNewContext('gc') as () => void;
    using device = Device.open({ kind: 'cuda', dtype: 'bf16' });
    const trainer = makeTrainer(device, { ...small, layers: 1, channels: 64, heads: 1 }, 2, 32, 1);
    const next = batches(3, 64, small.vocabularySize);
    const measured: { rss: number; heapUsed: number; available: number }[] = [];
    for (let step = 1; step <= 18_000; step++) {
      // As in a run, a step is enqueued while the previous one is computed.
      const { finished } = await trainer.begin(step, 1e-4, next);
      if (step < 8000 || step % 2000 !== 0) continue;
      await finished();
      collectGarbage();
      measured.push({ ...process.memoryUsage(), available: device.memory().available });
    }
    const [early, late] = [measured.slice(0, 3), measured.slice(3)];
    const growth = (of: 'rss' | 'heapUsed') =>
      Math.min(...late.map((one) => one[of])) - Math.min(...early.map((one) => one[of]));
    expect(new Set(measured.map(({ available }) => available)).size).toBe(1);
    expect(growth('rss')).toBeLessThan(4 * 2 ** 20);
    expect(growth('heapUsed')).toBeLessThan(2 ** 19);
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
      expect(Math.abs(totalOf(trainingPlan(device, config, sizes)) / used - 1), `${used} bytes`).toBeLessThan(0.02);
      expect(() => checkMemory(device, config, { ...sizes, B: 4096 })).toThrow(
        /^--batch 4096 with --seq 1024 needs [\d.]+ GiB of memory, [\d.]+ GiB of [\d.]+ GiB are free; --batch \d+ --total-batch 4194304 fits$/,
      );
    },
  );
});
