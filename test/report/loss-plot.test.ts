// The figure of a run: which series it shows, alone and over references.
import { expect, it } from 'vitest';
import { readReference } from '../../src/compare/reference.ts';
import { curvesOf } from '../../src/report/curves.ts';
import { lossPlot } from '../../src/report/loss-plot.ts';
import type { RunSeries, Series } from '../../src/runs/reader.ts';
import { expectWellFormed } from './well-formed.ts';

const flat = readReference('llmc-d12-fp32-b4-t64');
const d6 = readReference('llmc-d6-fp32-b4-t64');

it('a run over its reference: both in the legend, every series in a panel, the source below', () => {
  const svg = lossPlot([{ name: 'mine', series: flat.series }], [flat]);
  expectWellFormed(svg);
  for (const text of [
    'mine over llmc-d12-fp32-b4-t64',
    'mine, train',
    'mine, validation',
    `${flat.name}, train`,
    `${flat.name}, validation`,
    'limit of a training step',
    'loss (nats per token)',
    '|difference| of loss',
    'gradient norm',
    'learning rate',
    '>step<',
    'reference: llm.c f1e2ace, fp32, TF32 off, one H100 80GB',
  ]) {
    expect(svg).toContain(text);
  }
  // Train, norm and lr of each, and a sample of each in the legend; five validations each, and five differences.
  expect(svg.match(/stroke-dasharray="7 4"/g)).toHaveLength(4);
  expect(svg.match(/stroke="#d55e00" stroke-width="1.6"/g)).toHaveLength(4);
  expect(svg.match(/<circle/g)).toHaveLength(15 + 2);
  expect(lossPlot([{ name: 'mine', series: flat.series }], [flat])).toBe(svg);
});

it('a run alone has no reference, no difference, and a solid line', () => {
  const svg = lossPlot([{ name: 'mine', series: flat.series }], []);
  expectWellFormed(svg);
  expect(svg).not.toMatch(/reference|difference|limit|stroke-dasharray/);
  expect(svg).toContain('gradient norm');
});

it('several references differ in more than colour', () => {
  const svg = lossPlot([{ name: 'mine', series: flat.series }], [flat, d6]);
  expectWellFormed(svg);
  expect(svg).toContain(`${d6.name}, validation`);
  expect(svg.match(/stroke-dasharray="2 2"/g)).toHaveLength(4);
  expect(svg).toContain('r="8"');
});

it("a reference is drawn up to the run's last step, a tolerance in place of its limits", () => {
  const upTo30 = (points: Series) => points.filter(([step]) => step < 30);
  const { train, val, norm, lr } = d6.series;
  const begun = { train: upTo30(train), val: upTo30(val), norm: upTo30(norm), lr: upTo30(lr) };
  const svg = lossPlot([{ name: 'mine', series: begun }], [d6], { tolerance: 0.01 });
  expect(svg).toContain('>tolerance 0.01<');
  expect(svg).not.toContain('>100<');
});

it.each([
  ['nothing yet', { train: [], val: [], norm: [], lr: [] }],
  ['only step 0', { train: [[0, 11]], val: [], norm: [[0, 1]], lr: [[0, 3e-4]] }],
  [
    'a loss that is NaN',
    {
      train: [
        [0, 11],
        [1, Number.NaN],
      ],
      val: [],
      norm: [[0, Number.POSITIVE_INFINITY]],
      lr: [],
    },
  ],
] as [string, RunSeries][])('%s is drawn too', (_, series) => {
  for (const references of [[], [d6]]) {
    const svg = lossPlot([{ name: 'mine', series }], references);
    expectWellFormed(svg);
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  }
});

it('many runs: a title that fits, no two with the same look, and what the difference is from', () => {
  const runs = Array.from({ length: 9 }, (_, index) => ({ name: `run ${index}`, series: flat.series }));
  const svg = lossPlot(runs, [flat, d6]);
  expectWellFormed(svg);
  expect(svg).toContain(`>9 runs over ${flat.name}, ${d6.name}<`);
  expect(svg).toContain(`>difference: from ${flat.name}<`);
  const looks = curvesOf(runs, [flat, d6]).map(({ light, dash }) => `${light} ${dash}`);
  expect(new Set(looks).size).toBe(looks.length);
  const colors = curvesOf(runs.slice(0, 6), []).flatMap(({ light, dark }) => [light, dark]);
  expect(new Set(colors).size).toBe(12);
});

it('a long run is thinned, its average drawn over it', () => {
  const long = Array.from({ length: 100_000 }, (_, step) => [step, 3 + Math.sin(step)] as const);
  const svg = lossPlot([{ name: 'long', series: { train: long, val: [], norm: long, lr: long } }]);
  expectWellFormed(svg);
  expect(svg.length).toBeLessThan(600_000);
  expect(svg).toContain('lines: moving averages; faint: every step');
  expect(svg.match(/stroke-opacity="0.25"/g)).toHaveLength(2);
});
