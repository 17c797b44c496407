// Operations on a curve's points before they are drawn, axes with their marks, and the format of numbers and tables.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatRate, formatTable } from '../../src/report/format-text.ts';
import { difference, smooth, thin, valueNear } from '../../src/report/points.ts';
import { extentOf, formatTick, formatter, logTicks, marksOf, placeOn, scaleOf, ticks } from '../../src/report/scale.ts';

const { NaN: nan } = Number;
const points = (...pairs: (readonly [number, number])[]) => ({
  steps: pairs.map(([step]) => step),
  values: pairs.map(([, value]) => value),
});

it.each([
  [[2, 7, 9], 1, undefined],
  [[2, 7, 9], 2, 0],
  [[2, 7, 9], 4, 0],
  [[2, 7, 9], 6, 1],
  [[2, 7, 9], 7.4, 1],
  [[2, 7, 9], 9, 2],
  [[2, 7, 9], 99, undefined],
  [[], 3, undefined],
])('of %j, the value near step %d', (steps, step, place) => {
  expect(valueNear(steps, step)).toBe(place);
});

it('difference: at the steps that both have', () => {
  const run = points([0, 5], [2, 4], [3, 3]);
  expect(difference(run, points([0, 4], [1, 9], [3, 3.5], [4, 1]))).toEqual(points([0, 1], [3, -0.5]));
});

it.each([
  ['a constant unchanged from the first step on, values not finite in place', 1, 0.9, [2, nan, 2], [2, nan, 2]],
  ['what lies between the averaged values', 1, 0.5, [1, 3], [1, 7 / 3]],
  ['a curve of every ninth step, which forgets at each as others in three', 9, 0.5, [1, 3], [1, 1 + 1.75 / 0.9375]],
])('smooth gives %s', (_, every, weight, values, smoothed) => {
  const steps = [...values.keys()].map((step) => step * every);
  const close = smoothed.map((value) => (Number.isNaN(value) ? value : expect.closeTo(value, 12)));
  expect(smooth({ steps, values }, weight)).toEqual({ steps, values: close });
});

describe('thin', () => {
  it('keeps spikes, gaps and both ends, in order, in at most four points per column plus the ends (property)', () => {
    const value = fc.oneof(fc.double({ noNaN: true, min: -10, max: 10 }), fc.constant(nan));
    fc.assert(
      fc.property(fc.array(value, { minLength: 100, maxLength: 600 }), (values) => {
        const kept = thin({ steps: [...values.keys()], values }, 10);
        expect(kept.steps.length).toBeLessThanOrEqual(5 * 11);
        expect(extentOf(kept.values)).toEqual(extentOf(values));
        expect(kept.values.some(Number.isNaN)).toBe(values.some(Number.isNaN));
        expect([kept.steps[0], kept.steps.at(-1)]).toEqual([0, values.length - 1]);
        expect(kept.steps).toEqual([...new Set(kept.steps)].sort((a, b) => a - b));
        for (const [place, step] of kept.steps.entries()) expect(kept.values[place]).toBe(values[step]);
      }),
    );
  });

  it('leaves few points unchanged', () => {
    const whole = points([0, 0], [1, 1], [2, 2]);
    expect(thin(whole, 10)).toEqual(whole);
  });
});

describe('ticks', () => {
  it.each([
    [0, 60, 8, [0, 10, 20, 30, 40, 50, 60]],
    [0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]],
    [9.93, 11.02, 5, [10, 10.5, 11]],
    [-0.002, 0.0011, 3, [-0.002, 0]],
    [0, 6.3e-4, 4, [0, 2e-4, 4e-4, 6e-4]],
  ])('from %d to %d, about %d', (low, high, count, wanted) => {
    expect(ticks(low, high, count)).toEqual(wanted);
  });

  it('are at most one more than asked for, rise, and lie between the ends (property)', () => {
    const end = fc.double({ noNaN: true, min: -1e6, max: 1e6 });
    const length = fc.double({ noNaN: true, min: 1e-3, max: 1e6 });
    fc.assert(
      fc.property(end, length, fc.integer({ min: 2, max: 10 }), (low, length, count) => {
        const found = ticks(low, low + length, count);
        expect(found.length).toBeLessThanOrEqual(count + 1);
        found.forEach((tick, index) => {
          if (index > 0) expect(tick).toBeGreaterThan(found[index - 1]!);
          expect(tick).toBeGreaterThanOrEqual(low - length * 1e-6);
          expect(tick).toBeLessThanOrEqual(low + length * (1 + 1e-6));
        });
      }),
    );
  });

  it.each([
    [0, 2, [1, 10, 100]],
    [-4, -1, [1e-4, 1e-3, 1e-2, 1e-1]],
    [0.2, 1.1, [2, 5, 10]],
  ])('logarithmic, from 10^%d to 10^%d', (low, high, wanted) => {
    expect(logTicks(low, high)).toEqual(wanted);
  });
});

describe('scales', () => {
  const places = (scale: ReturnType<typeof scaleOf>, ...values: number[]) =>
    values.map((value) => placeOn(scale, value));

  it('linear: the ends lie at 0 and 1, a margin inside', () => {
    const extent = extentOf([2, 4, nan]);
    expect(places(scaleOf(extent, 0), 2, 3, 4)).toEqual([0, 0.5, 1]);
    expect(places(scaleOf(extent, 0.5), 2, 4)).toEqual([0.25, 0.75]);
  });

  it.each([[[]], [[0]], [[3e-4, 3e-4]], [[nan]]])('linear: %j has a length', (values) => {
    const scale = scaleOf(extentOf(values), 0.05);
    expect(placeOn(scale, values[0] || 0)).toBeGreaterThanOrEqual(0);
    expect(placeOn(scale, values[0] || 0)).toBeLessThanOrEqual(1);
    expect(marksOf(scale, 4).length).toBeGreaterThan(1);
  });

  it('logarithmic: decades are equally long; values below the floor lie on it', () => {
    const [zero, below, low, middle, high] = places(scaleOf([0, 1e-3], 0, 1e-5), 0, 1e-9, 1e-5, 1e-4, 1e-3);
    expect([zero, below]).toEqual([0, 0]);
    expect(middle! - low!).toBeCloseTo(high! - middle!, 10);
    expect(marksOf(scaleOf(undefined, 0, 1e-5), 4).length).toBeGreaterThan(1);
    expect(placeOn(scaleOf([7, 7], 0.05, 1e-5), 7)).toBeCloseTo(0.5, 10);
  });

  it.each([
    [1.1, 3.6, ['2', '3']],
    [1e-4, 1e-2, ['1e-4', '1e-3', '0.01']],
  ])('logarithmic: at least two values are marked from %d to %d', (least, largest, texts) => {
    expect(marksOf(scaleOf([least, largest], 0, 1e-6), 4).map(({ text }) => text)).toEqual(texts);
  });

  it('marks of steps are whole', () => {
    expect(marksOf({ low: 0, high: 2 }, 4).map(({ at }) => at)).toEqual([0, 0.5, 1, 1.5, 2]);
    expect(marksOf({ low: 0, high: 2 }, 4, true).map(({ text }) => text)).toEqual(['0', '1', '2']);
  });
});

it.each([
  { marks: [9, 10, 11], texts: ['9', '10', '11'] },
  { marks: [9.5, 10, 10.5], texts: ['9.5', '10.0', '10.5'] },
  { marks: [-0.01, 0, 0.01], texts: ['−0.01', '0.00', '0.01'] },
  { marks: [0, 2e-4, 4e-4], texts: ['0', '2e-4', '4e-4'] },
  { marks: [1.05e-3, 1.1e-3, 1.15e-3], texts: ['1.05e-3', '1.10e-3', '1.15e-3'] },
  { marks: [0, 50_000, 100_000], texts: ['0', '50,000', '100,000'] },
])('marks share a format: $texts', ({ marks, texts }) => {
  expect(marks.map(formatter(marks))).toEqual(texts);
});

it.each([
  ['marks', [0, 19000, 0.5, 3e-4], formatTick, ['0', '19,000', '0.5', '3e-4']],
  ['rates', [0.05123, 51.23, 999.4, 999.6, 1979], formatRate, ['0.0512', '51.2', '999', '1000', '1979']],
] as const)('%s of %j as texts, rates never with an exponent', (_, numbers, format, texts) =>
  expect(numbers.map(format)).toEqual(texts),
);

it('a table aligns columns: the first to the left, the others to the right, no blanks at the end', () => {
  const row = (...cells: string[]) => cells;
  expect(formatTable([row('a', 'bcd'), row('long', 'e'), row('x', '')])).toBe('a     bcd\nlong    e\nx');
  expect(formatTable([])).toBe('');
});
