// The figure of a run: which series it shows, alone and over references.
import { expect, it } from 'vitest';
import { readReference } from '../../src/report/compare/reference.ts';
import { lossPlot } from '../../src/report/loss-plot.ts';
import { curvesOf } from '../../src/report/shown-curves.ts';
import type { RunSeries, Series } from '../../src/runs/reader.ts';
import { expectWellFormed } from './well-formed.ts';

const flat = readReference('llmc-d12-fp32-b4-t64');
const d6 = readReference('llmc-d6-fp32-b4-t64');

/** Red, green and blue of a colour, linear in light. */
const lightOf = (color: string): number[] =>
  [1, 3, 5].map((at) => {
    const value = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });

const product = (matrix: readonly (readonly number[])[], vector: readonly number[]): number[] =>
  matrix.map((row) => row.reduce((sum, factor, index) => sum + factor * vector[index]!, 0));

/** The distance of two colours in OKLab, in which black and white are 1 apart. */
function apart(...colors: [string, string]): number {
  const [a, b] = colors.map((color) => {
    const cones = product(
      [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
      ],
      lightOf(color),
    );
    return product(
      [
        [0.2104542553, 0.793617785, -0.0040720468],
        [1.9779984951, -2.428592205, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.808675766],
      ],
      cones.map(Math.cbrt),
    );
  });
  return Math.hypot(...a!.map((value, index) => value - b![index]!));
}

/** As WCAG defines it. */
function contrast(...colors: [string, string]): number {
  const [dark, light] = colors
    .map((color) => product([[0.2126, 0.7152, 0.0722]], lightOf(color))[0]! + 0.05)
    .sort((a, b) => a - b);
  return light! / dark!;
}

it('a run over its reference: both in the legend, every series in a panel, the source below', () => {
  const svg = lossPlot([{ name: 'mine', series: flat.series }], [flat]);
  expectWellFormed(svg);
  for (const text of [
    'mine vs llmc-d12-fp32-b4-t64',
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

it("a reference is drawn up to the run's last step, --tolerance in place of its limits", () => {
  const upTo30 = (points: Series) => points.filter(([step]) => step < 30);
  const { train, val, norm, lr } = d6.series;
  const begun = { train: upTo30(train), val: upTo30(val), norm: upTo30(norm), lr: upTo30(lr) };
  const svg = lossPlot([{ name: 'mine', series: begun }], [d6], { tolerance: 0.01 });
  expect(svg).toContain('>limit 0.01<');
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
  expect(svg).toContain(`>9 runs vs ${flat.name}, ${d6.name}<`);
  expect(svg).toContain(`>difference: from ${flat.name}<`);
  const looks = curvesOf(runs, [flat, d6]).map(({ light, dash }) => `${light} ${dash}`);
  expect(new Set(looks).size).toBe(looks.length);
  const colors = curvesOf(runs.slice(0, 6), []).flatMap(({ light, dark }) => [light, dark]);
  expect(new Set(colors).size).toBe(12);
});

it('twelve runs have twelve colours, well apart and legible on the ground of their theme', () => {
  const curves = curvesOf(
    Array.from({ length: 12 }, (_, index) => ({ name: `${index}`, series: flat.series })),
    [],
  );
  for (const [theme, ground] of [
    ['light', '#ffffff'],
    ['dark', '#0f1318'],
  ] as const) {
    const colors = curves.map((curve) => curve[theme]);
    for (const [index, color] of colors.entries()) {
      expect(contrast(color, ground)).toBeGreaterThan(3);
      for (const other of colors.slice(0, index)) expect(apart(color, other)).toBeGreaterThan(0.09);
    }
  }
});

it('a long run is thinned, its average drawn over it', () => {
  const long = Array.from({ length: 100_000 }, (_, step) => [step, 3 + Math.sin(step)] as const);
  const svg = lossPlot([{ name: 'long', series: { train: long, val: [], norm: long, lr: long } }]);
  expectWellFormed(svg);
  expect(svg.length).toBeLessThan(600_000);
  expect(svg).toContain('lines: moving averages; faint: every step');
  expect(svg.match(/stroke-opacity="0.25"/g)).toHaveLength(2);
});
