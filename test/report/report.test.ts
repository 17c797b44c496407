// Plots and tables.
import { describe, expect, it } from 'vitest';
import { readReference } from '../../src/compare/reference.ts';
import { lossPlot } from '../../src/report/loss-plot.ts';
import { renderSvg, ticks } from '../../src/report/svg.ts';
import { formatTable } from '../../src/report/table.ts';

describe('ticks', () => {
  it.each([
    [0, 60, 8, [0, 10, 20, 30, 40, 50, 60]],
    [0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]],
    [9.93, 11.02, 5, [10, 10.5, 11]],
    [-0.002, 0.0011, 3, [-0.002, 0]],
  ])('from %d to %d, about %d', (low, high, count, wanted) => {
    expect(ticks(low, high, count)).toEqual(wanted);
  });
});

describe('renderSvg', () => {
  const plot = { title: 'a < b & c', xLabel: 'x', yLabel: 'y', source: 's' };
  const line = { label: '"l"', color: '#000', style: 'solid' as const };

  it('is well formed: every tag closes, text is escaped', () => {
    const svg = renderSvg({
      ...plot,
      lines: [
        {
          ...line,
          points: [
            [0, 1],
            [1, 2],
          ],
        },
      ],
    });
    const open: string[] = [];
    for (const [, close, name, self] of svg.matchAll(/<(\/?)([a-z]+)[^>]*?(\/?)>/g)) {
      if (close) expect(open.pop()).toBe(name);
      else if (!self) open.push(name!);
    }
    expect(open).toEqual([]);
    expect(svg).toContain('a &lt; b &amp; c');
    expect(svg).toContain('&quot;l&quot;');
  });

  it.each([
    ['no point', []],
    ['one point', [[3, 2]]],
    [
      'a NaN among them',
      [
        [0, 1],
        [1, Number.NaN],
        [2, 3],
      ],
    ],
  ] as [string, [number, number][]][])('draws %s without a NaN in the document', (_, points) => {
    expect(renderSvg({ ...plot, lines: [{ ...line, points }] })).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('a run over its reference has four series in the legend and the source below', () => {
    const reference = readReference('llmc-d12-fp32-b4-t64');
    const svg = lossPlot('mine', { series: reference.series }, reference);
    for (const text of [
      'mine, train',
      'mine, validation',
      `${reference.name}, train`,
      `${reference.name}, validation`,
    ]) {
      expect(svg).toContain(text);
    }
    expect(svg).toContain('reference: llm.c f1e2ace, fp32, TF32 off, one H100 80GB');
    expect(lossPlot('mine', { series: reference.series }, undefined)).not.toContain('reference');
  });
});

it('formatTable aligns columns', () => {
  expect(
    formatTable([
      ['a', 'bcd'],
      ['long', 'e'],
    ]),
  ).toBe('a     bcd\nlong    e');
});
