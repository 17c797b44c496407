// Renders values with names as an SVG document: a bar each, on a logarithmic axis. Equal input gives equal bytes.
import { logScale } from './scale.ts';
import { escapeText, shorten } from './svg.ts';

export interface Bar {
  readonly name: string;
  /** Above zero. */
  readonly value: number;
  /** What is written behind the bar. */
  readonly label: string;
  readonly color: string;
}

export interface BarFigure {
  readonly title: string;
  /** The quantity, with its unit. */
  readonly axis: string;
  readonly bars: readonly Bar[];
  /** A line set small below: where the numbers come from. */
  readonly source: string;
}

const [width, left, right, top, row] = [800, 220, 690, 48, 24];

export function barsSvg({ title, axis, bars, source }: BarFigure): string {
  const { place, ticks, format } = logScale(
    bars.map(({ value }) => value),
    { floor: Number.MIN_VALUE, margin: 0.05 },
  );
  const x = (value: number) => Math.round((left + place(value) * (right - left)) * 100) / 100;
  const bottom = top + row * bars.length;
  const marks = ticks.map(
    (tick) =>
      `<path d="M${x(tick)} ${top}V${bottom}" stroke="#e2e2e2"/><text x="${x(tick)}" y="${bottom + 18}" text-anchor="middle">${format(tick)}</text>`,
  );
  const drawn = bars.map(({ name, value, label, color }, index) => {
    const y = top + row * index;
    return `<text x="${left - 8}" y="${y + 16}" text-anchor="end">${escapeText(shorten(name, 34))}</text><rect x="${left}" y="${y + 4}" width="${Math.round((x(value) - left) * 100) / 100}" height="${row - 8}" fill="${color}"/><text x="${x(value) + 6}" y="${y + 16}">${escapeText(label)}</text>`;
  });
  const height = bottom + 66;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="13" fill="#1a1a1a">
<title>${escapeText(title)}</title>
<rect width="${width}" height="${height}" fill="#fff"/>
<text x="${left}" y="28" font-size="16" font-weight="bold">${escapeText(title)}</text>
${[...marks, ...drawn].join('\n')}
<text x="${(left + right) / 2}" y="${bottom + 38}" text-anchor="middle">${escapeText(axis)}</text>
<text x="${left}" y="${bottom + 58}" font-size="11" fill="#555">${escapeText(shorten(source, 100))}</text>
</svg>
`;
}
