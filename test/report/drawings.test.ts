// A figure as an SVG document and in the terminal: well formed, the same each time, without a number that is none.
import { describe, expect, it } from 'vitest';
import { lossPlot } from '../../src/report/loss-plot.ts';
import { makeFigure } from '../../src/report/make-figure.ts';
import { type PlotLine, renderSvg, type SvgFigure } from '../../src/report/svg.ts';
import { terminalPlot } from '../../src/report/terminal-plot.ts';
import type { RunSeries, Series } from '../../src/runs/reader.ts';
import { configuration } from '../runs/run-log.ts';
import { curve, d6, flat, runOf } from './runs-to-draw.ts';

/** Every tag that opens closes, in order, attributes and entities are whole, and every number is one. */
function expectWellFormed(svg: string): void {
  const open: string[] = [];
  for (const [, close, name, attributes, end] of svg.matchAll(/<(\/?)([a-zA-Z]+)((?:\s+[\w-]+="[^"<]*")*)\s*(\/?)>/g)) {
    if (close) expect(open.pop()).toBe(name);
    else if (!end) open.push(name!);
    const names = [...attributes!.matchAll(/([\w-]+)=/g)].map((match) => match[1]);
    expect(new Set(names).size, `${name} says an attribute twice`).toBe(names.length);
  }
  expect(open).toEqual([]);
  expect(svg.match(/</g)!.length).toBe(svg.match(/>/g)!.length);
  expect(svg.replaceAll(/&(amp|lt|gt|quot);/g, '')).not.toContain('&');
  expect(svg).not.toMatch(/NaN|Infinity|undefined/);
}

const { NaN: nan, POSITIVE_INFINITY: infinite } = Number;

describe('renderSvg', () => {
  const style = { color: '#000' };
  const points = { steps: [0, 1], values: [1, 2] };
  const figure = (...lines: PlotLine[]): SvgFigure => ({
    title: 'a < b & c\u0007',
    legend: lines.map((line) => ({ label: '"l"', style: line.style })),
    panels: [{ label: 'y', height: 100, marks: 4, lines }],
    axis: { label: 'x', first: 0, last: 4 },
    sources: ['s', 't'],
  });

  it('is well formed, and text is escaped', () => {
    const svg = renderSvg(figure({ points, style }));
    expectWellFormed(svg);
    expect(svg).toContain('a &lt; b &amp; c ');
    expect(svg).toContain('&quot;l&quot;');
    expect(renderSvg(figure({ points, style }))).toBe(svg);
  });

  it('draws lines, dashed lines, dots and rings, the same in the legend', () => {
    const svg = renderSvg(
      figure(
        { points, style: { color: '#010101' } },
        { points, style: { color: '#020202', dash: '7 4' } },
        { points, style: { color: '#030303', mark: 'dot' } },
        { points, style: { color: '#040404', mark: 'ring', size: 6 } },
      ),
    );
    expect(svg.match(/stroke="#010101"/g)).toHaveLength(2);
    expect(svg.match(/stroke="#020202"[^>]*stroke-dasharray="7 4"/g)).toHaveLength(2);
    expect(svg.match(/<g fill="#030303">/g)).toHaveLength(2);
    expect(svg.match(/r="6"/g)).toHaveLength(3);
  });

  it.each([
    ['no point', [], []],
    ['one point', [3], [2]],
    ['nothing but NaN', [3], [nan]],
    ['equal values', [0, 1], [3e-4, 3e-4]],
    ['an infinity among them', [0, 1, 2], [1, infinite, 3]],
  ])('draws %s without a NaN in the document', (_, steps, values) => {
    const some = { steps, values };
    expectWellFormed(renderSvg(figure({ points: some, style }, { points: some, style: { ...style, mark: 'dot' } })));
  });

  it.each([
    ['a point that is not finite interrupts the line', [1, 2, nan, 1, 2], 2, 2],
    ['a level stretch is drawn by its ends', [1, 2, 2, 2, 1], 1, 3],
  ])('%s', (_, values, moves, lines) => {
    const svg = renderSvg(figure({ points: { steps: [0, 1, 2, 3, 4], values }, style }));
    const [path] = /d="M[^"]*L[^"]*"/.exec(svg)!;
    expect(path.match(/M/g)).toHaveLength(moves);
    expect(path.match(/L/g)).toHaveLength(lines);
  });

  it('shortens a title that does not fit, in its middle', () => {
    const svg = renderSvg({ ...figure(), title: `begin-${'x'.repeat(200)}-end` });
    expect(svg).toMatch(/font-weight="bold">begin-x+…x+-end</);
  });
});

describe('lossPlot', () => {
  /** A run that is configured as `flat`. */
  const mine = runOf('mine', flat.series, { configuration: { ...configuration, ...flat.configuration } });

  it('a run over its reference: both in the legend, every series in a panel, the source below', () => {
    const svg = lossPlot(makeFigure([mine], [flat]));
    expectWellFormed(svg);
    for (const text of [
      'mine vs llmc-d12-fp32-b4-t64',
      '>mine<',
      'mine, validation',
      `>${flat.name}<`,
      `${flat.name}, validation`,
      'limit of a training step',
      'loss (nats per token)',
      '|difference| of loss',
      'gradient norm',
      'learning rate',
      '>step (256 tokens each)<',
      'reference: llm.c f1e2ace, fp32, TF32 off, one H100 80GB',
    ]) {
      expect(svg).toContain(text);
    }
    // Train, norm and lr of each, and a sample of each in the legend; five validations each, and five differences.
    expect(svg.match(/stroke-dasharray="7 4"/g)).toHaveLength(4);
    expect(svg.match(/stroke="#d55e00" stroke-width="1.6"/g)).toHaveLength(4);
    expect(svg.match(/<circle/g)).toHaveLength(15 + 2);
    expect(lossPlot(makeFigure([mine], [flat]))).toBe(svg);
  });

  it('a run alone has no reference, no difference, and a solid line', () => {
    const svg = lossPlot(makeFigure([mine]));
    expectWellFormed(svg);
    expect(svg).not.toMatch(/reference|difference|limit|stroke-dasharray/);
    expect(svg).toContain('gradient norm');
  });

  it('several references differ in more than colour', () => {
    const svg = lossPlot(makeFigure([mine], [flat, { ...d6, configuration: flat.configuration }]));
    expectWellFormed(svg);
    expect(svg).toContain(`${d6.name}, validation`);
    expect(svg.match(/stroke-dasharray="2 2"/g)).toHaveLength(4);
    expect(svg).toContain('r="8"');
  });

  it("a reference is drawn up to the run's last step, --tolerance in place of its limits", () => {
    const upTo30 = (points: Series) => points.filter(([step]) => step < 30);
    const { train, val, norm, lr } = d6.series;
    const begun = { train: upTo30(train), val: upTo30(val), norm: upTo30(norm), lr: upTo30(lr) };
    const svg = lossPlot(makeFigure([runOf('mine', begun)], [d6], { tolerance: 0.01 }));
    expect(svg).toContain('>limit 0.01<');
    expect(svg).not.toContain('>100<');
  });

  it('many runs: a title that fits, what the difference is from, and steps of different sizes', () => {
    const runs = Array.from({ length: 9 }, (_, index) => ({
      ...mine,
      ...{ name: `run ${index}`, configuration: { ...configuration, totalBatch: 256 * (1 + index) } },
    }));
    const svg = lossPlot(makeFigure(runs, [flat, d6]));
    expectWellFormed(svg);
    expect(svg).toContain(`>9 runs vs ${flat.name}, ${d6.name}<`);
    expect(svg).toContain(`>difference: from ${flat.name}<`);
    expect(svg).toContain('>step<');
  });

  it('a long run is thinned, its average drawn over it', () => {
    const long = curve(...Array.from({ length: 100_000 }, (_, step) => 3 + Math.sin(step)));
    const svg = lossPlot(makeFigure([runOf('long', { train: long, norm: long, lr: long })]));
    expectWellFormed(svg);
    expect(svg.length).toBeLessThan(600_000);
    expect(svg).toContain('lightly smoothed; faint: every value');
    expect(svg.match(/stroke-opacity="0.35"/g)).toHaveLength(2);
  });
});

describe('in the terminal', () => {
  const mine = runOf('mine');
  const plot = makeFigure([mine], [d6]);

  it.each([30, 80, 140])('is no wider than %d columns', (width) => {
    const lines = terminalPlot(plot, { width }).split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(width);
    expect(lines.filter((line) => /[┤│]/.test(line))).toHaveLength(16);
  });

  it('without colours each curve has a mark, the run on top', () => {
    const other = runOf('other', { train: d6.series.train.map(([step, loss]) => [step, loss + 2] as const) });
    const drawn = terminalPlot(makeFigure([other], [d6]), { width: 80 });
    expect(drawn).toContain('  o llmc-d6-fp32-b4-t64\n  * other');
    expect(drawn.match(/^.*o.*$/m)).not.toBeNull();
    expect(drawn.match(/[⠀-⣿]/)).toBeNull();
    expect(terminalPlot(plot, { width: 80 }).replace(/[\s\S]*?│/, '')).not.toMatch(/│.*o/);
  });

  it('with colours it is braille, painted by curve', () => {
    const paint = (color: string, text: string) => `<${color}${text}>`;
    const drawn = terminalPlot(plot, { width: 80, paint });
    expect(drawn).toMatch(/<blueBright[⠀-⣿]+>/);
    expect(drawn).toContain('<yellow━━> llmc-d6-fp32-b4-t64');
  });
});

it.each<[string, Partial<RunSeries>]>([
  ['nothing yet', {}],
  ['only step 0', { train: curve(11), norm: curve(1), lr: curve(3e-4) }],
  ['a loss that is NaN', { train: curve(11, nan, 10), norm: curve(infinite) }],
])('%s is drawn too', (_, series) => {
  for (const figure of [makeFigure([runOf('a', series)]), makeFigure([runOf('a', series)], [d6])]) {
    expectWellFormed(lossPlot(figure));
    const plot = terminalPlot(figure, { width: 60 });
    expect(plot).not.toMatch(/NaN|undefined|Infinity/);
    expect(plot).toContain('step');
  }
});
