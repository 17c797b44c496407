// The SVG document: well formed, the same each time, without a number that is none.
import { describe, expect, it } from 'vitest';
import { linearScale } from '../../src/report/scale.ts';
import { type Figure, type PlotLine, renderSvg } from '../../src/report/svg.ts';
import { expectWellFormed } from './well-formed.ts';

const style = { color: '#000' };
const figure = (lines: readonly PlotLine[]): Figure => ({
  title: 'a < b & c\u0007',
  legend: lines.map((line) => ({ label: '"l"', style: line.style })),
  panels: [
    {
      label: 'y',
      height: 100,
      scale: linearScale(
        lines.flatMap(({ points }) => points.map(([, y]) => y)),
        { count: 4, margin: 0.05 },
      ),
      lines,
    },
  ],
  axis: { label: 'x' },
  sources: ['s', 't'],
});

describe('renderSvg', () => {
  const points = [
    [0, 1],
    [1, 2],
  ] as const;

  it('is well formed, and text is escaped', () => {
    const svg = renderSvg(figure([{ points, style }]));
    expectWellFormed(svg);
    expect(svg).toContain('a &lt; b &amp; c ');
    expect(svg).toContain('&quot;l&quot;');
    expect(renderSvg(figure([{ points, style }]))).toBe(svg);
  });

  it('draws lines, dashed lines, dots and rings, the same in the legend', () => {
    const svg = renderSvg(
      figure([
        { points, style: { color: '#010101' } },
        { points, style: { color: '#020202', dash: '7 4' } },
        { points, style: { color: '#030303', mark: 'dot' } },
        { points, style: { color: '#040404', mark: 'ring', size: 6 } },
      ]),
    );
    expect(svg.match(/stroke="#010101"/g)).toHaveLength(2);
    expect(svg.match(/stroke="#020202"[^>]*stroke-dasharray="7 4"/g)).toHaveLength(2);
    expect(svg.match(/<g fill="#030303">/g)).toHaveLength(2);
    expect(svg.match(/r="6"/g)).toHaveLength(3);
  });

  it.each([
    ['no point', []],
    ['one point', [[3, 2]]],
    ['nothing but NaN', [[3, Number.NaN]]],
    [
      'equal values',
      [
        [0, 3e-4],
        [1, 3e-4],
      ],
    ],
    [
      'an infinity among them',
      [
        [0, 1],
        [1, Number.POSITIVE_INFINITY],
        [2, 3],
      ],
    ],
  ] as [string, [number, number][]][])('draws %s without a NaN in the document', (_, some) => {
    const svg = renderSvg(
      figure([
        { points: some, style },
        { points: some, style: { ...style, mark: 'dot' } },
      ]),
    );
    expectWellFormed(svg);
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('a point that is not finite interrupts the line', () => {
    const interrupted = [
      [0, 1],
      [1, 2],
      [2, Number.NaN],
      [3, 1],
      [4, 2],
    ] as const;
    const [path] = /d="M[^"]*L[^"]*"/.exec(renderSvg(figure([{ points: interrupted, style }])))!;
    expect(path.match(/M/g)).toHaveLength(2);
    expect(path.match(/L/g)).toHaveLength(2);
  });

  it('shortens a title that does not fit, in its middle', () => {
    const svg = renderSvg({ ...figure([]), title: `begin-${'x'.repeat(200)}-end` });
    expect(svg).toMatch(/font-weight="bold">begin-x+…x+-end</);
  });
});
