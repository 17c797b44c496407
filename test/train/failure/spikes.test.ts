// Computes the limits of --skip-spikes: mean and deviation of the right 128 steps, also on a device whose results are read
// late.
import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Random } from '../../../src/ops/cases/case-numbers.ts';
import { logPath } from '../../../src/runs/paths.ts';
import { readRun } from '../../../src/runs/reader.ts';
import { type Measured, recentSteps, SpikeWatch } from '../../../src/train/run/spikes.ts';
import { train } from '../../../src/train/train.ts';
import { Workplace } from '../../support/cli.ts';

const random = new Random(9);
const measured: Measured[] = Array.from({ length: 400 }, (_, step) => ({
  step,
  loss: 3 + random.uniform(),
  norm: 1 + random.uniform() / 4,
}));

describe('SpikeWatch', () => {
  it('knows no spike before 128 steps and one', () => {
    const watch = new SpikeWatch(3);
    for (const each of measured.slice(0, 128)) watch.add(each);
    expect(watch.limitsAt(128)).toEqual({});
    watch.add(measured[128]!);
    expect(watch.limitsAt(129)).not.toEqual({});
  });

  it('puts the limit z standard deviations over the mean of the 128 steps before the last', () => {
    const watch = new SpikeWatch(3, measured.slice(0, 300));
    const limit = (of: 'loss' | 'norm') => {
      const values = measured.slice(171, 299).map((each) => each[of]);
      const mean = values.reduce((sum, value) => sum + value) / 128;
      return mean + 3 * Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 128);
    };
    const { loss, norm } = watch.limitsAt(300);
    expect(loss).toBeCloseTo(limit('loss'), 12);
    expect(norm).toBeCloseTo(limit('norm'), 12);
  });

  it('gives the same limits whether or not the last step is known', () => {
    const [early, late] = [new SpikeWatch(4, measured.slice(0, 299)), new SpikeWatch(4, measured.slice(0, 300))];
    expect(late.limitsAt(300)).toEqual(early.limitsAt(300));
  });

  it('leaves what is not finite out of the mean', () => {
    const steps = [...measured.slice(0, 200)];
    const holed = [...steps.slice(0, 150), { step: 150, loss: Number.NaN, norm: Number.POSITIVE_INFINITY }];
    const watch = new SpikeWatch(2, [...holed, ...steps.slice(151)]);
    const { loss, norm } = watch.limitsAt(200);
    expect(Number.isFinite(loss) && Number.isFinite(norm)).toBe(true);
  });

  it('needs no more of before than counts', () => {
    const holed = [...measured.slice(0, 290), { step: 290, loss: Number.NaN, norm: 1 }, ...measured.slice(291, 300)];
    const kept = recentSteps(holed);
    expect(kept.length).toBe(129);
    expect(new SpikeWatch(3, kept).limitsAt(300)).toEqual(new SpikeWatch(3, holed).limitsAt(300));
  });

  it('has no limit where nothing varies', () => {
    const watch = new SpikeWatch(2);
    for (let step = 0; step < 200; step++) watch.add({ step, loss: 4, norm: 1 });
    expect(watch.limitsAt(200)).toEqual({ loss: undefined, norm: undefined });
  });
});

it('a run whose log was lost is resumed, its history empty', async () => {
  using place = new Workplace();
  const out = place.path('run');
  const sizes = { layers: 1, channels: 32, heads: 2, context: 16, sequence: 16, batch: 1 };
  const data = place.data({ vocabulary: 100 });
  await train({
    ...sizes,
    data,
    out,
    device: 'cpu',
    steps: 4,
    stopAfter: 2,
    valEvery: 0,
    sampleEvery: 0,
    skipSpikes: 6,
  });
  writeFileSync(logPath(out), '');
  await train({ out, resume: true, stopAfter: 3 });
  expect(readRun(out).series.train.map(([step]) => step)).toEqual([2]);
});
