// The plot for the terminal: as wide as asked, curves told apart with and without colours.
import { expect, it } from 'vitest';
import { readReference } from '../../src/report/compare/reference.ts';
import { terminalPlot } from '../../src/report/terminal-plot.ts';

const d6 = readReference('llmc-d6-fp32-b4-t64');
const mine = { name: 'mine', series: d6.series };

it.each([30, 80, 140])('is no wider than %d columns', (width) => {
  const lines = terminalPlot([mine], [d6], { width }).split('\n');
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(width);
  expect(lines.filter((line) => /[┤│]/.test(line))).toHaveLength(16);
});

it('without colours each curve has a mark, the run on top', () => {
  const other = {
    name: 'other',
    series: { ...d6.series, train: d6.series.train.map(([s, l]) => [s, l + 2] as const) },
  };
  const plot = terminalPlot([other], [d6], { width: 80 });
  expect(plot).toContain('  o llmc-d6-fp32-b4-t64\n  * other');
  expect(plot.match(/^.*o.*$/m)).not.toBeNull();
  expect(plot.match(/[⠀-⣿]/)).toBeNull();
  expect(terminalPlot([mine], [d6], { width: 80 }).replace(/[\s\S]*?│/, '')).not.toMatch(/│.*o/);
});

it('with colours it is braille, painted by curve', () => {
  const paint = (curve: number, text: string) => `<${curve}${text}>`;
  const plot = terminalPlot([mine], [d6], { width: 80, paint });
  expect(plot).toMatch(/<1[⠀-⣿]+>/);
  expect(plot).toContain('<0━━> llmc-d6-fp32-b4-t64');
});

it.each([
  ['nothing', []],
  ['one step', [[0, 11]]],
  [
    'a NaN',
    [
      [0, 11],
      [1, Number.NaN],
      [2, 10],
    ],
  ],
] as [string, [number, number][]][])('%s is drawn too', (_, train) => {
  const plot = terminalPlot([{ name: 'a', series: { train, val: [], norm: [], lr: [] } }], [], { width: 60 });
  expect(plot).not.toMatch(/NaN|undefined|Infinity/);
  expect(plot).toContain('step');
});
