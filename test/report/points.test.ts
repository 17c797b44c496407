// Operations on a curve's points before they are drawn (points.ts), and the format of an axis' marks (scale.ts).
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { difference, smooth, thin, unpack, valueNear } from '../../src/report/points.ts';
import { formatter } from '../../src/report/scale.ts';

const points = (pairs: readonly (readonly [number, number])[]) => ({
  steps: Float64Array.from(pairs, ([step]) => step),
  values: Float64Array.from(pairs, ([, value]) => value),
});
const pairs = ({ steps, values }: ReturnType<typeof points> | ReturnType<typeof thin>) =>
  Array.from(steps, (step, index) => [step, values[index]]);

it('unpack: even steps, uneven steps, values that JSON lacks', () => {
  expect(pairs(unpack({ first: 10, every: 5, values: [1, 'NaN', 'Infinity'] }))).toEqual([
    [10, 1],
    [15, Number.NaN],
    [20, Number.POSITIVE_INFINITY],
  ]);
  expect(pairs(unpack({ steps: [1, 4], values: [2, 3] }))).toEqual([
    [1, 2],
    [4, 3],
  ]);
});

it.each([
  [1, undefined],
  [2, 0],
  [4, 0],
  [6, 1],
  [7.4, 1],
  [9, 2],
  [99, undefined],
])('the value near step %d', (step, place) => {
  expect(valueNear(Float64Array.of(2, 7, 9), step)).toBe(place);
});

it('no value is near in an empty curve', () => {
  expect(valueNear(new Float64Array(), 3)).toBeUndefined();
});

it('difference: at the steps that both have', () => {
  const run = points([
    [0, 5],
    [2, 4],
    [3, 3],
  ]);
  const baseline = points([
    [0, 4],
    [1, 9],
    [3, 3.5],
    [4, 1],
  ]);
  expect(pairs(difference(run, baseline))).toEqual([
    [0, 1],
    [3, -0.5],
  ]);
});

describe('smooth', () => {
  it('leaves a constant unchanged from the first step on, and values that are not finite in place', () => {
    const { values } = smooth(
      points([
        [0, 2],
        [1, Number.NaN],
        [2, 2],
      ]),
      0.9,
    );
    expect([...values]).toEqual([2, Number.NaN, expect.closeTo(2, 12)]);
  });

  it('lies between what it averages', () => {
    expect([
      ...smooth(
        points([
          [0, 1],
          [1, 3],
        ]),
        0.5,
      ).values,
    ]).toEqual([1, expect.closeTo(7 / 3, 12)]);
  });
});

describe('thin', () => {
  it('keeps spikes, gaps and both ends, in order, in at most four points per column plus the ends (property)', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.double({ noNaN: true, min: -10, max: 10 }), fc.constant(Number.NaN)), {
          minLength: 100,
          maxLength: 600,
        }),
        (values) => {
          const whole = points(values.map((value, step) => [step, value] as const));
          const kept = thin(whole, 0, values.length - 1, 10);
          expect(kept.steps.length).toBeLessThanOrEqual(5 * 11);
          const finite = values.filter(Number.isFinite);
          const ofKept = [...kept.values].filter(Number.isFinite);
          expect(Math.max(...ofKept)).toBe(Math.max(...finite));
          expect(Math.min(...ofKept)).toBe(Math.min(...finite));
          expect(kept.values.some(Number.isNaN)).toBe(values.some(Number.isNaN));
          expect([kept.steps[0], kept.steps.at(-1)]).toEqual([0, values.length - 1]);
          expect([...kept.steps]).toEqual([...new Set(kept.steps)].sort((a, b) => a - b));
        },
      ),
    );
  });

  it('few points stay unchanged, with one beyond each end', () => {
    const whole = points([0, 1, 2, 3, 4, 5].map((step) => [step, step] as const));
    expect([...thin(whole, 2, 3, 10).steps]).toEqual([1, 2, 3]);
    expect([...thin(whole, 2.5, 3.5, 10).steps]).toEqual([2, 3, 4]);
  });
});

it.each([
  [
    [9, 10, 11],
    ['9', '10', '11'],
  ],
  [
    [9.5, 10, 10.5],
    ['9.5', '10.0', '10.5'],
  ],
  [
    [-0.01, 0, 0.01],
    ['−0.01', '0.00', '0.01'],
  ],
  [
    [0, 2e-4, 4e-4],
    ['0', '2e-4', '4e-4'],
  ],
  [
    [1.05e-3, 1.1e-3, 1.15e-3],
    ['1.05e-3', '1.10e-3', '1.15e-3'],
  ],
  [
    [0, 50_000, 100_000],
    ['0', '50,000', '100,000'],
  ],
])('the marks %j share a format', (marks, wanted) => {
  expect(marks.map(formatter(marks))).toEqual(wanted);
});
