// Laying a run over a reference: differences, limits, means, steps in common. The references themselves: reference.test.ts.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareSeries } from '../../src/report/compare/compare.ts';
import type { Reference } from '../../src/report/compare/reference.ts';
import type { RunSeries } from '../../src/runs/reader.ts';

const reference: Reference = {
  name: 'r',
  source: { program: 'p', version: '1', hardware: 'h', precision: 'fp32', command: 'c' },
  configuration: { batch: 4, steps: 10, schedule: 'cosine', finalLearningRateFraction: 0.1 },
  series: {
    train: [
      [0, 5],
      [1, 4],
      [2, 3],
    ],
    val: [[0, 5]],
    norm: [
      [0, 8],
      [1, 1],
      [2, 1],
    ],
    lr: [
      [0, 0.1],
      [1, 0.1],
      [2, 0.1],
    ],
  },
  limits: [
    { series: 'train', from: 0, to: 1, within: 0.1 },
    { series: 'train', kind: 'mean', from: 0, to: 2, within: 0.2 },
    { series: 'norm', from: 0, to: 2, within: 0.02, relativeAbove: { above: 4, within: 0.01 } },
  ],
};

const same: RunSeries = reference.series;
const changed = (series: Partial<RunSeries>): RunSeries => ({ ...same, ...series });
const find = (run: RunSeries, name: string, tolerance?: number) =>
  compareSeries(run, reference, tolerance).series.find(({ series }) => series === name)!;

describe('compareSeries', () => {
  it('equal curves are inside', () => {
    const { inside, series } = compareSeries(same, reference);
    expect(inside).toBe(true);
    expect(series.map(({ steps }) => steps)).toEqual([3, 1, 3, 3]);
  });

  it('names the first step beyond its limit, and only where the limit speaks', () => {
    expect(
      find(
        changed({
          train: [
            [0, 5.05],
            [1, 4.2],
            [2, 3],
          ],
        }),
        'train',
      ).beyond,
    ).toMatchObject({ step: 1, within: 0.1 });
    expect(
      find(
        changed({
          train: [
            [0, 5],
            [1, 4],
            [2, 3.5],
          ],
        }),
        'train',
      ).beyond,
    ).toBeUndefined();
  });

  it('holds means to limits of their own', () => {
    const { beyond, meanBeyond } = find(
      changed({
        train: [
          [0, 5],
          [1, 4],
          [2, 3.9],
        ],
      }),
      'train',
    );
    expect(beyond).toBeUndefined();
    expect(meanBeyond?.mean).toBeCloseTo(0.3, 10);
  });

  it('takes large values by their share', () => {
    expect(compareSeries(changed({ norm: [[0, 8.07]] }), reference).inside).toBe(true);
    expect(compareSeries(changed({ norm: [[0, 8.09]] }), reference).inside).toBe(false);
    expect(compareSeries(changed({ norm: [[1, 1.03]] }), reference).inside).toBe(false);
  });

  it('a tolerance replaces the limits, at every step', () => {
    expect(compareSeries(changed({ train: [[2, 3.5]] }), reference, 0.4).inside).toBe(false);
    expect(compareSeries(changed({ train: [[2, 3.5]] }), reference, 0.6).inside).toBe(true);
  });

  it('a NaN is beyond any limit', () => {
    const { inside, series } = compareSeries(
      changed({
        train: [
          [0, Number.NaN],
          [1, 4],
        ],
      }),
      reference,
    );
    expect(inside).toBe(false);
    expect(series[0]?.worst?.step).toBe(0);
  });

  it('a limit met exactly is inside, whatever the subtraction makes of it', () => {
    expect(4.1 - 4).toBeGreaterThan(0.1 - 1e-12);
    expect(compareSeries(changed({ train: [[1, 4.1]] }), reference).inside).toBe(true);
    expect(compareSeries(changed({ train: [[1, 4.1001]] }), reference).inside).toBe(false);
  });

  it('counts the steps in common, and those of them that a limit speaks of', () => {
    const longer = { ...reference.series, train: [...reference.series.train, [3, 2] as [number, number]] };
    const [train, val] = compareSeries(longer, { ...reference, series: longer }).series;
    expect(train).toMatchObject({ steps: 4, judged: 3 });
    expect(val).toMatchObject({ steps: 1, judged: 0 });
  });

  it('gives the last validation that both have, and both values', () => {
    expect(
      compareSeries(
        changed({
          val: [
            [0, 5.5],
            [7, 1],
          ],
        }),
        reference,
      ).finalValidation,
    ).toEqual({ step: 0, run: 5.5, reference: 5 });
    expect(compareSeries(changed({ val: [] }), reference).finalValidation).toBeUndefined();
  });

  it('a run with nothing in common has no worst step', () => {
    expect(find(changed({ train: [[9, 1]] }), 'train')).toMatchObject({ steps: 0, worst: undefined, mean: 0 });
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
        expect(inside).toBe(true);
        expect(compared.every(({ steps, mean }) => steps === points.length && mean === 0)).toBe(true);
      }),
    );
  });

  it('the tolerance is for the learning rate too, but never under what its digits can tell', () => {
    expect(compareSeries(changed({ lr: [[0, 0.2]] }), reference, 0.2).inside).toBe(true);
    expect(compareSeries(changed({ lr: [[0, 0.1000004]] }), reference, 0).inside).toBe(true);
  });

  it('a learning rate is held to half a unit of the last digit printed', () => {
    expect(compareSeries(changed({ lr: [[0, 0.1000004]] }), reference).inside).toBe(true);
    expect(compareSeries(changed({ lr: [[0, 0.1000006]] }), reference).inside).toBe(false);
  });
});
