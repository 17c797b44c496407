// The description of a figure: where curves lie on its axis, their looks, limits and tables. How it is drawn: drawings.test.ts.
import { describe, expect, it } from 'vitest';
import { unitOf } from '../../src/report/axis.ts';
import { compareSeries } from '../../src/report/compare/compare.ts';
import { FigureLines, legendOf, plainChoice } from '../../src/report/figure.ts';
import { lossPlot } from '../../src/report/loss-plot.ts';
import { makeFigure } from '../../src/report/make-figure.ts';
import { pack, unpack } from '../../src/report/points.ts';
import { terminalPlot } from '../../src/report/terminal-plot.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { configuration, runEvent, trainEvent } from '../runs/run-log.ts';
import { curve, d6, flat, loggedRun, runOf } from './runs-to-draw.ts';

const step = (step: number, ms: number) => ({ ...trainEvent(step, 10 - step), ms });
const val = (step: number) => ({ event: 'val', step, loss: 20 - step }) as const;

/** Two steps of 1000 tokens, killed after a third; then resumed with 4000 tokens a step. */
const resumed = loggedRun('resumed', [
  runEvent({ totalBatch: 1000 }),
  val(0),
  ...[step(0, 3000), step(1, 1000)],
  val(2),
  step(2, 70_000),
  { ...runEvent({ totalBatch: 4000 }), resumedFrom: 2 },
  ...[step(2, 2000), step(3, 2500)],
  val(4),
]);
const short = loggedRun('short', [runEvent({ totalBatch: 500 }), val(0), step(0, 4000), val(1)]);

/** Where the points of `resumed` lie. In thousands of tokens. */
const places = {
  steps: { train: [0, 1, 2, 3], val: [0, 2, 4] },
  tokens: { train: [0, 1, 2, 6], val: [0, 2, 10] },
  seconds: { train: [0, 3, 4, 6], val: [0, 4, 8.5] },
};

describe('a loss lies at what the steps before it took, on the weights of which it was measured', () => {
  it.each(['steps', 'tokens', 'seconds'] as const)('over %s, throughput too', (over) => {
    const { series } = makeFigure([resumed], [], { over }).curves[0]!;
    expect(series.val!.steps).toEqual(places[over].val);
    for (const of of ['train', 'norm', 'lr', 'tokensPerSecond'] as const) {
      expect(series[of]!.steps).toEqual(places[over].train);
    }
  });

  it('a run that was resumed with other options has neither one size of step nor one command', () => {
    const { axis, tokensPerStep, tables } = makeFigure([resumed]);
    expect([axis.label, tokensPerStep, tables.at(-1)!.command]).toEqual(['step', undefined, undefined]);
    expect(tables[0]!.notes[1]).toMatch(/^resumed: until step 2 configured with totalBatch 1000 instead of /);
  });

  it("a reference's tokens follow from its batch", () => {
    const { axis, curves } = makeFigure([resumed], [d6], { over: 'tokens' });
    expect(curves[0]!.series.train!.steps.at(-1)).toBeCloseTo((399 * 256) / 1000, 10);
    expect(axis).toMatchObject({ unit: 'thousand tokens', last: 102.4 });
    expect(() => makeFigure([resumed], [{ ...d6, configuration: {} }], { over: 'tokens' })).toThrow(
      /the tokens before/,
    );
  });

  it.each([
    ['its first steps', [{ ...runEvent(), resumedFrom: 3 }, step(3, 1)]],
    ['one step', [runEvent(), ...[0, 2, 3].map((at) => step(at, 1))]],
  ] as [string, RunEvent[]][])('a log without %s is refused', (_, events) => {
    const cut = loggedRun('cut', events);
    expect(() => makeFigure([cut], [], { over: 'seconds' })).toThrow('cut does not record the seconds before step 3');
    expect(makeFigure([cut]).axis.last).toBe(3);
  });
});

it.each([
  ['tokens', 4999, 'tokens'],
  ['tokens', 5e6, 'million tokens'],
  ['tokens', 6e11, 'billion tokens'],
  ['seconds', 0.2, 'seconds of training'],
  ['seconds', 300, 'minutes of training'],
  ['seconds', 5 * 3600, 'hours of training'],
  ['steps', 1e9, undefined],
] as const)('the unit of %s up to %d', (over, last, name) => {
  expect(unitOf(over, last)[0]).toBe(name);
});

it.each([
  ['tokens', 'thousand tokens', 10],
  ['seconds', 'seconds of training', 8.5],
] as const)('over %s: every curve whole, whatever is named first, and nothing that is by step', (over, label, last) => {
  const figures = [
    makeFigure([short], [resumed], { over }),
    makeFigure([resumed, short], [], { over, tolerance: 0.1 }),
    makeFigure([short, resumed], [], { over }),
  ];
  for (const figure of figures) {
    expect(figure).toMatchObject({ axis: { label, unit: label, last }, baseline: -1 });
    const svg = lossPlot(figure);
    expect(svg).toContain(`>${label}<`);
    expect(svg).toContain(over === 'tokens' ? '>10<' : '>8<');
    expect(svg).not.toMatch(/difference|limit|step/);
    // Three validations, two, and one in the legend of each.
    expect(svg.match(/<circle/g)).toHaveLength(7);
    const plot = terminalPlot(figure, { width: 80 });
    expect(plot).toContain(label);
    expect(plot).not.toContain('step');
  }
  expect(figures.at(-1)!.title).toBe('short, resumed');
});

it('over steps marks are whole, over seconds they need not be', () => {
  const twice = loggedRun('twice', [runEvent(), step(0, 1000), step(1, 1), step(2, 1)]);
  expect(lossPlot(makeFigure([twice]))).not.toContain('>0.5<');
  expect(lossPlot(makeFigure([twice], [], { over: 'seconds' }))).toContain('>0.4<');
});

describe('curves, tables and sources', () => {
  it('curves with their points, the baseline beneath, its limits, tables and sources', () => {
    const compared = { run: runOf('mine'), baseline: d6, comparison: compareSeries(d6.series, d6) };
    const figure = makeFigure([compared.run], [d6], { compared: [compared] });
    expect(figure).toMatchObject({ title: `mine vs ${d6.name}`, baseline: 0, tokensPerStep: 256 });
    expect(figure.axis).toMatchObject({ first: 4, last: 400 });
    expect(figure.curves.map(({ name }) => name)).toEqual([d6.name, 'mine']);
    const { steps, values } = figure.curves[1]!.series.val!;
    expect(steps.map((step, index) => [step, values[index]])).toEqual(d6.series.val);
    expect(figure.curves[0]!.limits.val).toEqual(d6.limits.filter(({ series }) => series === 'val'));
    expect(figure.curves[1]!.limits.val).toEqual([]);
    expect(figure.tables.map(({ title }) => title)).toEqual([`mine vs ${d6.name}`, 'Configuration']);
    expect(figure.sources).toEqual([
      'gpt2.ts 0, fp32, CPU (portable)',
      'reference: llm.c f1e2ace, fp32, TF32 off, one H100 80GB',
    ]);
  });

  it.each([
    [
      'even steps',
      { steps: [10, 15, 20], values: [1, Number.NaN, Number.POSITIVE_INFINITY] },
      { first: 10, every: 5, values: [1, 'NaN', 'Infinity'] },
    ],
    ['uneven steps', { steps: [0, 3, 4], values: [1, Number.NaN, 3] }, { steps: [0, 3, 4], values: [1, 'NaN', 3] }],
    ['no point', { steps: [], values: [] }, { first: 0, every: 1, values: [] }],
  ])('%s and values that are not finite survive JSON', (_, points, packed) => {
    const json = JSON.stringify({ points }, pack);
    expect(JSON.parse(json)).toEqual({ points: packed });
    expect(JSON.parse(json, unpack)).toEqual({ points });
  });

  it('several runs without a reference are laid over the first; one run over nothing', () => {
    expect(makeFigure([runOf('a'), runOf('b')])).toMatchObject({ baseline: 0, title: 'b vs a' });
    expect(makeFigure([runOf('a')])).toMatchObject({ baseline: -1, title: 'a', tables: [{ title: 'a' }, {}] });
  });

  it('one run brings its state, figures and log; several bring their throughput only', () => {
    const one = runOf('a', d6.series, { events: [runEvent(), trainEvent(0, 10), trainEvent(1, 9)] });
    const { run, curves } = makeFigure([one], [d6]);
    expect(run).toMatchObject({
      end: { state: 'unfinished' },
      samples: [],
      lines: [/^started/, /^step 0/, /^step 1/].map((line) => expect.stringMatching(line)),
    });
    expect(curves.map(({ series }) => series.tokensPerSecond?.values)).toEqual([undefined, [10, 10]]);
    for (const several of [makeFigure([one, runOf('b')]), makeFigure([one], [runOf('b')])]) {
      expect(several.run).toBeUndefined();
    }
  });

  it('a path in the configuration is shortened to its last part', () => {
    const hellaswag = 'data/questions/mine.bin';
    const { tables } = makeFigure([runOf('a', {}, { configuration: { ...configuration, hellaswag } })]);
    expect(tables.at(-1)!.rows).toContainEqual(['hellaswag', 'mine.bin']);
  });

  it('a tolerance is the band of every series', () => {
    const figure = makeFigure([runOf('a')], [d6], { tolerance: 0.5 });
    expect(figure.curves[0]!.limits.norm).toMatchObject([{ from: 0, within: 0.5 }]);
    const choice = { ...plainChoice, isDifference: true, baseline: 0 };
    const { steps, values } = new FigureLines(figure).band({ ...choice, series: 'norm' })!;
    expect([steps.length, new Set(values)]).toEqual([d6.series.norm.length, new Set([0.5])]);
  });
});

it.each([
  [1, 0, 0],
  [99, 0, 0.6],
  [400, 4, 0.6],
  [20_000, 200, 0.99],
])('of %i steps the first view leaves out %i and smooths by %d', (last, first, weight) => {
  const figure = makeFigure([runOf('a', { train: Array.from({ length: last + 1 }, (_, step) => [step, 3] as const) })]);
  expect(figure.axis).toMatchObject({ first, last });
  const lines = new FigureLines(figure);
  expect(lines.lightSmoothing).toBe(weight);
  const choice = { ...plainChoice, smoothing: weight, hidden: new Set(['val 0']) };
  expect(lines.lines({ ...choice, series: 'loss' }).map(({ series }) => series)).toEqual(['train']);
  expect(lines.lines({ ...choice, series: 'lr' })[0]!.smoothed).toBeUndefined();
});

it('smoothing sets a reference of every tenth step hardly apart', () => {
  const fall = (every: number) => Array.from({ length: 401 / every }, (_, at) => [at * every, -at * every] as const);
  const figure = makeFigure([runOf('a', { train: fall(1) })], [{ ...d6, series: { ...d6.series, train: fall(10) } }]);
  const drawn = new FigureLines(figure).lines({ ...plainChoice, series: 'train', smoothing: 0.6 });
  const at390 = drawn.map(({ smoothed }) => smoothed!.values[smoothed!.steps.indexOf(390)]!);
  expect(Math.abs(at390[0]! - at390[1]!)).toBeLessThan(1.5);
});

it('training and validation have an entry each in the legend, runs before references', () => {
  const keys = (shown: 'loss' | 'norm') => legendOf(makeFigure([runOf('a')], [d6]), shown).map(({ key }) => key);
  expect(keys('loss')).toEqual(['train 1', 'val 1', 'train 0', 'val 0']);
  expect(keys('norm')).toEqual(['train 1', 'train 0']);
});

/** Red, green and blue of a colour, linear in light. */
const lightOf = (color: string): number[] =>
  [1, 3, 5].map((at) => {
    const value = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });

const product = (vector: readonly number[], ...matrix: (readonly number[])[]): number[] =>
  matrix.map((row) => row.reduce((sum, factor, index) => sum + factor * vector[index]!, 0));

/** The distance of two colours in OKLab, in which black and white are 1 apart. */
function apart(...colors: [string, string]): number {
  const [a, b] = colors.map((color) => {
    const cones = product(
      lightOf(color),
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    );
    return product(
      cones.map(Math.cbrt),
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    );
  });
  return Math.hypot(...a!.map((value, index) => value - b![index]!));
}

/** As WCAG defines it. */
function contrast(...colors: [string, string]): number {
  const [dark, light] = colors
    .map((color) => product(lightOf(color), [0.2126, 0.7152, 0.0722])[0]! + 0.05)
    .sort((a, b) => a - b);
  return light! / dark!;
}

describe('looks', () => {
  const runs = Array.from({ length: 12 }, (_, index) => runOf(`${index}`, { train: curve(1) }));

  it('no two curves of nine runs and two references have the same, in a file and in the terminal', () => {
    const { curves } = makeFigure(runs.slice(0, 9), [flat, d6]);
    expect(new Set(curves.map(({ light, dash }) => `${light.train} ${dash}`)).size).toBe(11);
    expect(new Set(curves.map(({ terminal }) => terminal)).size).toBe(11);
    const looks = makeFigure(runs.slice(0, 6)).curves.flatMap(({ light, dark }) => [light, dark]);
    expect(new Set(looks.flatMap(({ train, val }) => [train, val])).size).toBe(24);
  });

  it.each([
    ['light', '#ffffff'],
    ['dark', '#0f1318'],
  ] as const)(
    'twelve runs and a reference have two colours each, well apart and legible on a %s ground',
    (theme, ground) => {
      const curves = makeFigure(runs, [flat]).curves.map((curve) => curve[theme]);
      for (const { val } of curves) expect(contrast(val, ground)).toBeGreaterThan(4.5);
      const colors = curves.flatMap(({ train, val }) => [train, val]);
      for (const [index, color] of colors.entries()) {
        expect(contrast(color, ground)).toBeGreaterThan(3);
        for (const other of colors.slice(0, index)) expect(apart(color, other)).toBeGreaterThan(0.09);
      }
    },
  );
});
