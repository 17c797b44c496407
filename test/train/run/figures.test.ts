// Decisions of a run that depend on figures alone: learning rates by hand and as llm.c printed them, the limits of --skip-spikes, the
// first difference between shards.
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { learningRateAt, readRun, type Schedule, train } from '../../../src/index.ts';
import { Random } from '../../../src/ops/cases/case-numbers.ts';
import { logPath } from '../../../src/runs/paths.ts';
import { outlookText } from '../../../src/train/plan/outlook.ts';
import { changedShard } from '../../../src/train/run/same-inputs.ts';
import { type Measured, openSpikeWatch, recentSteps, spikeWatch } from '../../../src/train/run/spikes.ts';
import { throughputOf } from '../../../src/train/run/throughput.ts';
import { trainEvent } from '../../runs/run-log.ts';
import { Workplace } from '../../support/cli.ts';
import { noticesOf, tinyRun } from '../../support/tiny-run.ts';

const peak = { learningRate: 1, warmup: 10, steps: 110 };
const base: Schedule = { ...peak, schedule: 'cosine', finalLearningRateFraction: 0.1, decayFraction: 0.2 };

const wsd = { schedule: 'wsd', steps: 100 } as const;

it.each<[what: string, changes: Partial<Schedule>, step: number, share: number]>([
  ['the warmup rises linearly', {}, 0, 0.1],
  ['its last step has the peak', {}, 9, 1],
  ['and the step after it', {}, 10, 1],
  ['cosine is half way down in the middle', {}, 60, 0.55],
  ['and has the final share at the end', {}, 110, 0.1],
  ['linear is half way down in the middle', { schedule: 'linear' }, 60, 0.55],
  ['and has the final share at the end', { schedule: 'linear' }, 110, 0.1],
  ['constant does not fall', { schedule: 'constant' }, 109, 1],
  ['wsd holds to 80% of the steps', wsd, 79, 1],
  ['and still there', wsd, 80, 1],
  ['then falls with a square root', wsd, 85, 0.1 + 0.9 * 0.5],
  ['to the final share', wsd, 100, 0.1],
  ['wsd with another share of decay', { ...wsd, decayFraction: 0.5 }, 49, 1],
  ['still there', { ...wsd, decayFraction: 0.5 }, 50, 1],
  ['falls in that share', { ...wsd, decayFraction: 0.5 }, 62.5, 0.1 + 0.9 * 0.5],
  ['a single step, without warmup', { warmup: 0, steps: 1 }, 0, 1],
  ['a single step, with warmup', { warmup: 1, steps: 1 }, 0, 1],
])('learningRateAt: %s', (_, changes, step, share) => {
  const rate = learningRateAt({ ...base, ...changes }, step);
  if (share === 1) expect(rate).toBe(1);
  else expect(rate).toBeCloseTo(share, 12);
});

it.each<[changes: object, step: number, message: string]>([
  [{}, 111, 'step takes a number from 0 to 110, not 111'],
  [{}, -1, 'step takes a number from 0 to 110, not -1'],
  [{ schedule: 'step' }, 20, 'schedule takes one of cosine, linear, constant, wsd, trapezoid, not "step"'],
  [{ schedule: 'wsd', decayFraction: 5 }, 20, 'decayFraction takes a number'],
  [{ schedule: 'linear', warmup: -5 }, 20, 'warmup takes a whole number of at least 0, not -5'],
  [{ finalLearningRateFraction: 7 }, 20, 'finalLearningRateFraction takes a number from 0 to 1, not 7'],
  [{ finalLearningRateFraction: undefined }, 20, 'the learning rate of step 20 takes a number of at least 0, not NaN'],
])('learningRateAt refuses %j at step %d', (changes, step, message) => {
  expect(() => learningRateAt({ ...base, ...changes } as Schedule, step)).toThrow(message);
});

const random = new Random(9);
const measured: Measured[] = Array.from({ length: 400 }, (_, step) => ({
  step,
  loss: 3 + random.uniform(),
  norm: 1 + random.uniform() / 4,
}));

describe('spikeWatch', () => {
  it('knows no spike before 128 steps and one', () => {
    const watch = spikeWatch(3);
    for (const each of measured.slice(0, 128)) watch.add(each);
    expect(watch.limitsAt(128)).toEqual({});
    watch.add(measured[128]!);
    expect(watch.limitsAt(129)).not.toEqual({});
  });

  it('puts the limit z standard deviations over the mean of the 128 steps before the last', () => {
    const watch = spikeWatch(3, measured.slice(0, 300));
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
    const [early, late] = [spikeWatch(4, measured.slice(0, 299)), spikeWatch(4, measured.slice(0, 300))];
    expect(late.limitsAt(300)).toEqual(early.limitsAt(300));
  });

  it('leaves what is not finite out of the mean', () => {
    const steps = [...measured.slice(0, 200)];
    const holed = [...steps.slice(0, 150), { step: 150, loss: Number.NaN, norm: Number.POSITIVE_INFINITY }];
    const watch = spikeWatch(2, [...holed, ...steps.slice(151)]);
    const { loss, norm } = watch.limitsAt(200);
    expect(Number.isFinite(loss) && Number.isFinite(norm)).toBe(true);
  });

  it('needs no more of before than counts', () => {
    const holed = [...measured.slice(0, 290), { step: 290, loss: Number.NaN, norm: 1 }, ...measured.slice(291, 300)];
    const kept = recentSteps(holed);
    expect(kept.length).toBe(129);
    expect(spikeWatch(3, kept).limitsAt(300)).toEqual(spikeWatch(3, holed).limitsAt(300));
  });

  it('has no limit where nothing varies', () => {
    const watch = spikeWatch(2);
    for (let step = 0; step < 200; step++) watch.add({ step, loss: 4, norm: 1 });
    expect(watch.limitsAt(200)).toEqual({ loss: undefined, norm: undefined });
  });
});

it('a resumed run counts all updates that it skipped before', async () => {
  const events = measured.map(({ step, loss }) => ({ ...trainEvent(step, loss), skipped: step % 100 === 5 }));
  expect(await openSpikeWatch(undefined, 3, events)).toMatchObject({ skipped: 4 });
});

it.each([
  ['lost', () => '', /lacks 2 of the 2 steps/, [2]],
  ['without a step', (log: string) => log.replace(/.*"train","step":0.*\n/, ''), /lacks 1 of the 2 steps/, [1, 2]],
] as const)('a run whose log is %s is resumed, which it says', async (_, change, said, steps) => {
  using place = new Workplace();
  const out = place.path('run');
  await train({ ...tinyRun, data: place.data({ vocabulary: 100 }), out, steps: 4, stopAfter: 2 });
  writeFileSync(logPath(out), change(readFileSync(logPath(out), 'utf8')));
  expect(await noticesOf({ out, resume: true, stopAfter: 3 })).toContainEqual(expect.stringMatching(said));
  expect(readRun(out).series.train.map(([step]) => step)).toEqual(steps);
});

const a = { name: 'a_train.bin', tokens: 300, sha256: 'a'.repeat(64) };
const b = { name: 'b_train.bin', tokens: 200, sha256: 'b'.repeat(64) };

it('a shard whose hash was not recorded is the same', () => {
  const { sha256: _, ...older } = b;
  expect(changedShard([a, older], [a, b])).toBeUndefined();
});

it.each([
  ['nothing', [a, b], undefined],
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

it('the time left is that of the median step, and of what is due between steps', async () => {
  const span = { steps: 100, startStep: 0, lastStep: 100 };
  const throughput = throughputOf(256, span, 0);
  // Saves at 40 and 80 of 0.5 s, half of which training loses, and the last one.
  const saving = throughputOf(256, span, 200e6, { every: 40, slowdown: 0.5 });
  for (const milliseconds of [5000, 100, 100]) saving.add(milliseconds);
  expect(saving.remaining()).toBeCloseTo(9.7 + 2 * 0.25 + 0.5, 9);
  let clock = 0;
  const now = () => clock;
  const work = (milliseconds: number) => async () => {
    clock += milliseconds;
  };
  await throughput.between('val', 50, 0, work(900), now);
  for (const milliseconds of [5000, 100, 100]) {
    expect(throughput.remaining()).toBeUndefined();
    throughput.add(milliseconds);
  }
  // 97 steps; validations at 50 and 100.
  expect(throughput.remaining()).toBeCloseTo(9.7 + 1.8, 9);
  throughput.add(40_000);
  expect(throughput.remaining()).toBeCloseTo(9.6 + 1.8, 9);
  // The newest validation counts, and none twice; a save at 60 and at 90, and after the last step.
  await throughput.between('val', 50, 50, work(700), now);
  await throughput.between('save', 30, 30, work(10), now);
  for (let step = 4; step < 50; step++) throughput.add(100);
  expect(throughput.remaining()).toBeCloseTo(5 + 0.7 + 0.03, 9);
  for (let step = 50; step < 100; step++) throughput.add(200);
  throughput.saveSeconds = 0.25;
  expect(throughput.remaining()).toBeCloseTo(0.7 + 0.01 + 0.25, 9);
  expect(throughput.step).toBe(200);
});

it.each([
  ['a short run: after the third step', 50, 100, 100, 3],
  ['a long run: when its steps have settled', 3000, 50, 40, 45],
  ['a long run of long steps: after the third', 3000, 1000, 1000, 3],
])('throughputOf tells the outlook of %s', (_, steps, first, later, at) => {
  const throughput = throughputOf(10, { steps, startStep: 0, lastStep: steps }, 0);
  const told: [number, number | undefined][] = [];
  for (let step = 1; step <= 50; step++) {
    throughput.add(step <= 20 ? first : later);
    const outlook = throughput.outlook(1);
    if (outlook) told.push([step, outlook.stepSeconds]);
  }
  expect(told).toEqual([[at, later / 1000]]);
});

it.each([
  ['before --stop-after', 0, { steps: 60, tokens: 600, epochs: 1.2, seconds: 5.7 }, /^60 steps, 600 tokens, /],
  ['after a resume', 20, { steps: 40, tokens: 400, epochs: 0.8, seconds: 3.7 }, /^40 steps from step 20, 400 tokens, /],
])('throughputOf tells the outlook of the steps %s', (_, startStep, outlook, text) => {
  const throughput = throughputOf(10, { steps: 400, startStep, lastStep: 60 }, 0);
  for (let step = 0; step < 3; step++) throughput.add(100);
  const found = throughput.outlook(8)!;
  expect(found).toMatchObject(outlook);
  expect(outlookText(found)).toMatch(text);
});
