// Laying a run over a reference: differences, limits, means, steps in common. The references themselves: reference.test.ts.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { compareSeries } from '../../src/report/compare/compare.ts';
import type { Reference } from '../../src/report/compare/reference.ts';
import type { RunSeries } from '../../src/runs/reader.ts';
import { curve } from '../report/runs-to-draw.ts';

const reference: Reference = {
  name: 'r',
  source: { program: 'p', version: '1', hardware: 'h', precision: 'fp32', command: 'c' },
  configuration: { batch: 4, steps: 10, schedule: 'cosine', finalLearningRateFraction: 0.1 },
  series: { train: curve(5, 4, 3), val: curve(5), norm: curve(8, 1, 1), lr: curve(0.1, 0.1, 0.1) },
  limits: [
    { series: 'train', from: 0, to: 1, within: 0.1 },
    { series: 'train', kind: 'mean', from: 0, to: 2, within: 0.2 },
    { series: 'norm', from: 0, to: 2, within: 0.02, relativeAbove: { above: 4, within: 0.01 } },
  ],
};

const compared = (changes: Partial<RunSeries>, tolerance?: number) =>
  compareSeries({ ...reference.series, ...changes }, reference, tolerance);
const train = (...values: number[]) => compared({ train: curve(...values) }).series[0]!;

it('equal curves are inside', () => {
  const { inside, series } = compared({});
  expect(inside).toBe(true);
  expect(series.map(({ steps }) => steps)).toEqual([3, 1, 3, 3]);
});

it('names the first step beyond its limit, only where the limit speaks; means have limits of their own', () => {
  expect(train(5.05, 4.2, 3).beyond).toMatchObject({ step: 1, within: 0.1 });
  expect(train(5, 4, 3.5).beyond).toBeUndefined();
  expect(train(5, 4, 3.9)).toMatchObject({ beyond: undefined, meanBeyond: { mean: expect.closeTo(0.3, 10) } });
});

it('a NaN is beyond any limit', () => {
  const { inside, series } = compared({ train: curve(Number.NaN, 4) });
  expect(inside).toBe(false);
  expect(series[0]?.worst?.step).toBe(0);
});

it.each<[string, Partial<RunSeries>, number | undefined, boolean]>([
  ['no step in common', { train: [], val: [], norm: [], lr: [] }, 0.1, false],
  ['a large value within its share', { norm: [[0, 8.07]] }, undefined, true],
  ['a large value beyond its share', { norm: [[0, 8.09]] }, undefined, false],
  ['a small value beyond the limit', { norm: [[1, 1.03]] }, undefined, false],
  ['beyond a tolerance, where no limit applies', { train: [[2, 3.5]] }, 0.4, false],
  ['within a tolerance', { train: [[2, 3.5]] }, 0.6, true],
  ['a limit met exactly, whatever the subtraction makes of it', { train: [[1, 4.1]] }, undefined, true],
  ['a little beyond a limit', { train: [[1, 4.1001]] }, undefined, false],
  ['a learning rate within a tolerance', { lr: [[0, 0.2]] }, 0.2, true],
  ['a learning rate within half a unit of its last digit, beyond a tolerance', { lr: [[0, 0.1000004]] }, 0, true],
  ['a learning rate within half a unit of its last digit', { lr: [[0, 0.1000004]] }, undefined, true],
  ['a learning rate beyond half a unit of its last digit', { lr: [[0, 0.1000006]] }, undefined, false],
])('%s', (_, changes, tolerance, inside) => {
  expect(compared(changes, tolerance).inside).toBe(inside);
});

it('counts the steps in common, and those of them that a limit speaks of', () => {
  const longer = { ...reference.series, train: [...reference.series.train, [3, 2] as [number, number]] };
  const [train, val] = compareSeries(longer, { ...reference, series: longer }).series;
  expect(train).toMatchObject({ steps: 4, judged: 3 });
  expect(val).toMatchObject({ steps: 1, judged: 0 });
});

it('gives the last validation that both have; with nothing in common there is no worst step', () => {
  const val = [[0, 5.5], [7, 1]] as const; // biome-ignore format: one line
  expect(compared({ val }).finalValidation).toEqual({ step: 0, run: 5.5, reference: 5 });
  expect(compared({ val: [] }).finalValidation).toBeUndefined();
  expect(compared({ train: [[9, 1]] }).series[0]).toMatchObject({ steps: 0, worst: undefined, mean: 0 });
});

it('a curve laid over itself is inside, at any length (property)', () => {
  const curve = fc.uniqueArray(fc.tuple(fc.nat(500), fc.double({ noNaN: true, min: -100, max: 100 })), {
    selector: ([step]) => step,
  });
  fc.assert(
    fc.property(curve, fc.double({ noNaN: true, min: 0, max: 1 }), (points, within) => {
      const series = { train: points, val: points, norm: points, lr: points };
      const limits = [{ series: 'train' as const, from: 0, to: 500, within }];
      const { inside, series: compared } = compareSeries(series, { ...reference, series, limits });
      expect(inside).toBe(points.length > 0);
      expect(compared.every(({ steps, mean }) => steps === points.length && mean === 0)).toBe(true);
    }),
  );
});
