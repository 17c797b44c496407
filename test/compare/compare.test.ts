// Laying a run over a reference: differences, limits, means, mismatched configurations; the references themselves.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { makeReferences } from '../../scripts/make-references.ts';
import { compareSeries } from '../../src/compare/compare.ts';
import {
  matchingReference,
  mismatches,
  type Reference,
  readReference,
  referenceNames,
} from '../../src/compare/reference.ts';
import type { RunSeries } from '../../src/runs/reader.ts';
import type { Configuration } from '../../src/runs/schema.ts';

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
    { series: 'train', from: 0, to: 2, within: 0.2, mean: true },
    { series: 'norm', from: 0, to: 2, within: 0.02, relative: { above: 4, within: 0.01 } },
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

  it('a learning rate is held to half a unit of the last digit printed', () => {
    expect(compareSeries(changed({ lr: [[0, 0.1000004]] }), reference).inside).toBe(true);
    expect(compareSeries(changed({ lr: [[0, 0.1000006]] }), reference).inside).toBe(false);
  });
});

describe('references', () => {
  const d6 = readReference('llmc-d6-fp32-b4-t64');
  const asConfigured = (of: Reference, changes: object = {}) =>
    ({ ...of.configuration, data: `somewhere/${of.configuration.data}`, ...changes }) as unknown as Configuration;

  it.each(referenceNames())('%s is found by its own configuration', (name) => {
    expect(matchingReference(asConfigured(readReference(name)))?.name).toBe(name);
  });

  it('every field that differs is named', () => {
    expect(mismatches(asConfigured(d6, { batch: 8, seed: 1 }), d6)).toEqual([
      { field: 'batch', run: 8, reference: 4 },
      { field: 'seed', run: 1, reference: 42 },
    ]);
    expect(matchingReference(asConfigured(d6, { batch: 8 }))).toBeUndefined();
  });

  it('the number of steps matters only where the learning rate falls', () => {
    const flat = readReference('llmc-d12-fp32-b4-t64');
    expect(mismatches(asConfigured(flat, { steps: 7, schedule: 'constant' }), flat)).toEqual([]);
    expect(mismatches(asConfigured(d6, { steps: 7 }), d6)).toHaveLength(1);
  });

  it('an unknown reference, and a file that is none', () => {
    expect(() => readReference('llmc-d7')).toThrow(/there is no reference llmc-d7: .*llmc-d6-fp32-b4-t64/);
    expect(() => readReference(fileURLToPath(new URL('../../package.json', import.meta.url)))).toThrow(
      'is not a reference curve',
    );
  });

  const logs = fileURLToPath(new URL('../../../shared/reference', import.meta.url));
  it.skipIf(!existsSync(logs))('are what the recorded logs give (needs the logs beside the repository)', () => {
    const made = makeReferences(logs);
    expect([...made.keys()].sort()).toEqual(referenceNames().map((name) => `${name}.json`));
    for (const [name, text] of made) {
      expect(readFileSync(new URL(`../../data/reference/${name}`, import.meta.url), 'utf8')).toBe(text);
    }
  });
});
