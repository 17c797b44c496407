// Decisions of a run that depend on figures alone: learning rates by hand and as llm.c printed them, the limits of --skip-spikes, the
// first difference between shards.
import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Random } from '../../../src/ops/cases/case-numbers.ts';
import { logPath } from '../../../src/runs/paths.ts';
import { readRun } from '../../../src/runs/reader.ts';
import { formatEvent } from '../../../src/runs/schema.ts';
import type { Run } from '../../../src/train/run/run.ts';
import { changedShard } from '../../../src/train/run/same-data.ts';
import { learningRateAt, type Schedule } from '../../../src/train/run/schedule.ts';
import { type Measured, openSpikeWatch, recentSteps, SpikeWatch } from '../../../src/train/run/spikes.ts';
import { train } from '../../../src/train/train.ts';
import { trainEvent } from '../../runs/run-log.ts';
import { Workplace } from '../../support/cli.ts';

const peak = { learningRate: 1, warmup: 10, steps: 110 };
const base: Schedule = { ...peak, schedule: 'cosine', finalLearningRateFraction: 0.1, decayFraction: 0.2 };

describe('learningRateAt', () => {
  it('rises linearly and reaches the peak with the last step of the warmup', () => {
    expect(learningRateAt(base, 0)).toBeCloseTo(0.1, 12);
    expect(learningRateAt(base, 9)).toBe(1);
    expect(learningRateAt(base, 10)).toBe(1);
  });

  it('cosine: half way down in the middle, the final share at the end', () => {
    expect(learningRateAt(base, 60)).toBeCloseTo(0.55, 12);
    expect(learningRateAt(base, 110)).toBeCloseTo(0.1, 12);
  });

  it('linear', () => {
    expect(learningRateAt({ ...base, schedule: 'linear' }, 60)).toBeCloseTo(0.55, 12);
    expect(learningRateAt({ ...base, schedule: 'linear' }, 110)).toBeCloseTo(0.1, 12);
  });

  it('constant does not fall', () => {
    expect(learningRateAt({ ...base, schedule: 'constant' }, 109)).toBe(1);
  });

  it('wsd holds to 80 % of the steps, then falls with a square root', () => {
    const wsd: Schedule = { ...base, schedule: 'wsd', steps: 100 };
    expect(learningRateAt(wsd, 79)).toBe(1);
    expect(learningRateAt(wsd, 80)).toBe(1);
    expect(learningRateAt(wsd, 85)).toBeCloseTo(0.1 + 0.9 * 0.5, 12);
    expect(learningRateAt(wsd, 100)).toBeCloseTo(0.1, 12);
  });

  it('wsd decays in the share of the steps that --decay-frac says', () => {
    const wsd: Schedule = { ...base, schedule: 'wsd', steps: 100, decayFraction: 0.5 };
    expect([49, 50].map((step) => learningRateAt(wsd, step))).toEqual([1, 1]);
    expect(learningRateAt(wsd, 62.5)).toBeCloseTo(0.1 + 0.9 * 0.5, 12);
  });

  it('works without warmup and for a single step', () => {
    expect(learningRateAt({ ...base, warmup: 0, steps: 1 }, 0)).toBe(1);
    expect(learningRateAt({ ...base, warmup: 1, steps: 1 }, 0)).toBe(1);
  });
});

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

it('a resumed run counts all updates that it skipped before', async () => {
  using place = new Workplace();
  const events = measured.map(({ step, loss }) => ({ ...trainEvent(step, loss), skipped: step % 100 === 5 }));
  writeFileSync(logPath(place.folder), events.map(formatEvent).join(''));
  const run = { folder: { out: place.folder, resumed: {} }, span: { startStep: events.length } } as unknown as Run;
  expect(await openSpikeWatch(run, 3, () => {})).toMatchObject({ skipped: 4 });
});

it('a run whose log was lost is resumed, its history empty', async () => {
  using place = new Workplace();
  const out = place.path('run');
  const sizes = { layers: 1, channels: 32, heads: 2, context: 16, sequence: 16, batch: 1 };
  const data = place.data({ vocabulary: 100 });
  const never = { valEvery: 0, sampleEvery: 0 };
  await train({ ...sizes, ...never, data, out, device: 'cpu', steps: 4, stopAfter: 2, skipSpikes: 6 });
  writeFileSync(logPath(out), '');
  await train({ out, resume: true, stopAfter: 3 });
  expect(readRun(out).series.train.map(([step]) => step)).toEqual([2]);
});

const a = { name: 'a_train.bin', tokens: 300, sha256: 'a'.repeat(64) };
const b = { name: 'b_train.bin', tokens: 200, sha256: 'b'.repeat(64) };

it('the same shards are the same, with or without a hash of before', () => {
  const { name, tokens } = b;
  expect(changedShard([a, b], [a, b])).toBeUndefined();
  expect(changedShard([a, { name, tokens }], [a, b])).toBeUndefined();
});

it.each([
  ['a name', [{ ...a, name: 'c.bin' }, b], 'shard 0 was a_train.bin of 300 tokens, now it is c.bin of 300 tokens'],
  ['a length', [a, { ...b, tokens: 7 }], 'shard 1 was b_train.bin of 200 tokens, now it is b_train.bin of 7 tokens'],
  ['one less', [a], 'shard 1 was b_train.bin of 200 tokens, now it is missing'],
  ['one more', [a, b, a], 'shard 2 was missing, now it is a_train.bin of 300 tokens'],
  [
    'contents',
    [a, { ...b, sha256: a.sha256 }],
    'shard 1, b_train.bin, had the sha256 bbbbbbbbbbbb…, now it has aaaaaaaaaaaa…',
  ],
])('%s', (_, now, difference) => {
  expect(changedShard([a, b], now)).toBe(difference);
});
