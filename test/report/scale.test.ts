// Scales: where values lie between the ends of an axis, and which round numbers are marked.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatTick, linearScale, logScale, logTicks, ticks } from '../../src/report/scale.ts';

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
    fc.assert(
      fc.property(
        end,
        fc.double({ noNaN: true, min: 1e-3, max: 1e6 }),
        fc.integer({ min: 2, max: 10 }),
        (low, length, count) => {
          const found = ticks(low, low + length, count);
          expect(found.length).toBeLessThanOrEqual(count + 1);
          found.forEach((tick, index) => {
            if (index > 0) expect(tick).toBeGreaterThan(found[index - 1]!);
            expect(tick).toBeGreaterThanOrEqual(low - length * 1e-6);
            expect(tick).toBeLessThanOrEqual(low + length * (1 + 1e-6));
          });
        },
      ),
    );
  });
});

it.each([
  [0, 2, [1, 10, 100]],
  [-4, -1, [1e-4, 1e-3, 1e-2, 1e-1]],
  [0.2, 1.1, [2, 5, 10]],
])('logTicks from 10^%d to 10^%d', (low, high, wanted) => {
  expect(logTicks(low, high)).toEqual(wanted);
});

describe('scales', () => {
  it('linear: the ends lie at 0 and 1, a margin inside', () => {
    const plain = linearScale([2, 4, Number.NaN], { count: 5, margin: 0 });
    expect([plain.place(2), plain.place(3), plain.place(4)]).toEqual([0, 0.5, 1]);
    const roomy = linearScale([2, 4], { count: 5, margin: 0.5 });
    expect([roomy.place(2), roomy.place(4)]).toEqual([0.25, 0.75]);
  });

  it.each([[[]], [[0]], [[3e-4, 3e-4]], [[Number.NaN]]])('linear: %j has a length', (values) => {
    const { place, ticks: marks } = linearScale(values, { count: 4, margin: 0.05 });
    expect(place(values[0] || 0)).toBeGreaterThanOrEqual(0);
    expect(place(values[0] || 0)).toBeLessThanOrEqual(1);
    expect(marks.length).toBeGreaterThan(1);
  });

  it('logarithmic: decades are equally long; values below the floor lie on it', () => {
    const { place } = logScale([0, 1e-3], { floor: 1e-5, margin: 0 });
    expect(place(0)).toBe(0);
    expect(place(1e-9)).toBe(0);
    expect(place(1e-4) - place(1e-5)).toBeCloseTo(place(1e-3) - place(1e-4), 10);
    expect(logScale([], { floor: 1e-5, margin: 0 }).ticks.length).toBeGreaterThan(1);
    expect(logScale([7], { floor: 1e-5, margin: 0.05 }).place(7)).toBeCloseTo(0.5, 10);
  });

  it('logarithmic: at least two values are marked, however close the ends are', () => {
    const { ticks: marks, format } = logScale([1.1, 3.6], { floor: 1e-6, margin: 0 });
    expect(marks.map(format)).toEqual(['2', '3']);
    expect(logScale([1e-4, 1e-2], { floor: 1e-6, margin: 0 }).ticks).toEqual([1e-4, 1e-3, 1e-2]);
  });
});

it.each([
  [0, '0'],
  [19000, '19,000'],
  [0.5, '0.5'],
  [3e-4, '3e-4'],
])('formatTick(%d) is %s', (tick, text) => {
  expect(formatTick(tick)).toBe(text);
});
