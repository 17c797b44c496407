// Compares learning rates with ones computed by hand and ones printed by llm.c.
import { describe, expect, it } from 'vitest';
import { learningRateAt, type Schedule } from '../../../src/train/run/schedule.ts';

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
