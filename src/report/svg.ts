// Draws SVG documents for print: a column of panels over one horizontal axis, or a bar chart. Equal input gives equal bytes.
// loss-plot.ts chooses the panels for runs.
import type { Axis } from './figure.ts';
import type { Points } from './points.ts';
import { extentOf, marksOf, placeOn, type Scale, scaleOf } from './scale.ts';

/** The style of a series: a solid line, a dashed line or marks, so that two series differ even without colours. */
export interface LineStyle {
  readonly color: string;
  /** SVG's stroke-dasharray; undefined or empty: a solid line. */
  readonly dash?: string;
  readonly mark?: 'dot' | 'ring';
  /** Width of a line, or radius of a mark, in SVG units. */
  readonly size?: number;
  /** Opacity, 0 to 1. Below 1 the lines underneath show through. */
  readonly opacity?: number;
}

export interface PlotLine {
  readonly points: Points;
  readonly style: LineStyle;
}

export interface Panel {
  /** Label of the vertical axis: the quantity and its unit. */
  readonly label: string;
  readonly height: number;
  /** Approximate number of marks (tick labels) on the vertical axis. */
  readonly marks: number;
  /** If set, the vertical axis is logarithmic with this lower end: see `scaleOf`. */
  readonly floor?: number | undefined;
  /** Lines in drawing order: the last is on top. */
  readonly lines: readonly PlotLine[];
}

export interface SvgFigure {
  readonly title: string;
  readonly legend: readonly { readonly label: string; readonly style: LineStyle }[];
  readonly panels: readonly Panel[];
  readonly axis: Axis;
  /** Small lines at the bottom that name the sources of the numbers. */
  readonly sources: readonly string[];
}

const width = 800;
const left = 72;
const right = width - 24;
const legendTop = 52;
const legendRow = 20;
const legendColumns = 2;
const panelGap = 22;
/** Height below the last panel for ticks and the axis's label. Below this, each source takes a row. */
const foot = 62;
const sourceRow = 15;
const ink = { text: '#1a1a1a', axis: '#333', grid: '#e2e2e2', quiet: '#555' };

/** An SVG document, 800 units wide, with its title. @param content SVG elements, in which texts are already escaped */
function document(title: string, height: number, start: number, content: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="13" fill="${ink.text}">
<title>${escapeText(title)}</title>
<rect width="${width}" height="${height}" fill="#fff"/>
${text(title, start, 28, 68, 'font-size="16" font-weight="bold"')}
${content.join('\n')}
</svg>
`;
}

/** A text element. Its content is shortened to at most `length` characters. */
const text = (content: string, x: number, y: number, length: number, attributes: string): string =>
  `<text x="${x}" y="${y}" ${attributes}>${escapeText(shorten(content, length))}</text>`;

const small = `font-size="11" fill="${ink.quiet}"`;

export function renderSvg({ title, legend, panels, axis, sources }: SvgFigure): string {
  const horizontal: Scale = { low: axis.first, high: axis.last || 1 };
  const x = (value: number) => round(left + placeOn(horizontal, value) * (right - left));
  const marks = marksOf(horizontal, 8, axis.unit === undefined);
  let bottom = legendTop + Math.ceil(legend.length / legendColumns) * legendRow - panelGap;
  const drawn = panels.map((panel, index) => {
    const top = bottom + panelGap;
    bottom = top + panel.height;
    const isLast = index === panels.length - 1;
    const ticks = marks.map(({ at, text }) => {
      const tick = `<path d="M${x(at)} ${bottom}v5" stroke="${ink.axis}"/>`;
      return isLast ? `${tick}<text x="${x(at)}" y="${bottom + 20}" text-anchor="middle">${text}</text>` : tick;
    });
    return drawPanel(panel, top, x, ticks);
  });
  return document(title, bottom + foot + sourceRow * sources.length, left, [
    ...legend.map(({ label, style }, index) => legendEntry(label, style, index)),
    ...drawn,
    text(axis.label, (left + right) / 2, bottom + 42, 120, 'text-anchor="middle"'),
    ...sources.map((source, index) => text(source, left, bottom + foot + sourceRow * index + 4, 120, small)),
  ]);
}

type Placing = (value: number) => number;

/** @param ticks SVG elements of the horizontal axis's ticks */
function drawPanel(panel: Panel, top: number, x: Placing, ticks: readonly string[]): string {
  const { label, height, lines, floor } = panel;
  const scale = scaleOf(extentOf(lines.flatMap(({ points }) => points.values)), 0.05, floor);
  const bottom = top + height;
  const y = (value: number) => round(bottom - placeOn(scale, value) * height);
  return [
    ...marksOf(scale, panel.marks).map(
      ({ at, text }) =>
        `<path d="M${left} ${y(at)}H${right}" stroke="${ink.grid}"/><text x="${left - 8}" y="${round(y(at) + 4.5)}" text-anchor="end">${text}</text>`,
    ),
    ...ticks,
    `<path d="M${left} ${top}V${bottom}H${right}" fill="none" stroke="${ink.axis}"/>`,
    `<text transform="translate(18 ${top + height / 2}) rotate(-90)" text-anchor="middle">${escapeText(label)}</text>`,
    ...lines.map(({ points, style }) => drawLine(points, style, x, y)),
  ].join('\n');
}

function drawLine({ steps, values }: Points, style: LineStyle, x: Placing, y: Placing): string {
  const places = values.map((value, at) => (Number.isFinite(value) ? ([x(steps[at]!), y(value)] as const) : undefined));
  if (style.mark) {
    return `<g ${paint(style)}>${places.map((place) => place && circle(...place, style)).join('')}</g>`;
  }
  // Leave out the inner points of a horizontal stretch: the path stays the same without them.
  const isLevel = (at: number) => [-1, 1].every((by) => places[at + by]?.[1] === places[at]![1]);
  const path = places.map((place, at) => place && !isLevel(at) && `${places[at - 1] ? 'L' : 'M'}${place.join(' ')}`);
  return `<path d="${path.filter(Boolean).join('')}" ${paint(style)}/>`;
}

function legendEntry(label: string, style: LineStyle, index: number): string {
  const columnWidth = (right - left) / legendColumns;
  const start = left + (index % legendColumns) * columnWidth;
  const middle = legendTop + Math.floor(index / legendColumns) * legendRow - 4;
  const sample = style.mark
    ? `<g ${paint(style)}>${circle(start + 14, middle, style)}</g>`
    : `<path d="M${start} ${middle}h28" ${paint(style)}/>`;
  return `${sample}<text x="${start + 38}" y="${middle + 4}">${escapeText(shorten(label, 44))}</text>`;
}

const circle = (cx: number, cy: number, { size = 3.5 }: LineStyle): string =>
  `<circle cx="${cx}" cy="${cy}" r="${size}"/>`;

function paint({ color, dash, mark, size = 1.6, opacity }: LineStyle): string {
  if (mark === 'dot') return `fill="${color}"`;
  if (mark === 'ring') return `fill="none" stroke="${color}" stroke-width="1.5"`;
  const dashes = dash ? ` stroke-dasharray="${dash}"` : '';
  const faint = opacity === undefined ? '' : ` stroke-opacity="${opacity}"`;
  return `fill="none" stroke="${color}" stroke-width="${size}" stroke-linejoin="round"${dashes}${faint}`;
}

export interface Bar {
  readonly name: string;
  /** Must be above zero, because the axis is logarithmic. */
  readonly value: number;
  /** Text after the bar. */
  readonly label: string;
  readonly color: string;
}

type BarTexts = Readonly<Record<'title' | 'axis' | 'source', string>>;

/** A chart of horizontal bars on a logarithmic axis. @param axis quantity and unit @param source text in small print at the bottom */
export function barsSvg({ title, axis, source }: BarTexts, bars: readonly Bar[]): string {
  const [start, end, top, row] = [220, 690, 48, 24];
  const scale = scaleOf(extentOf(bars.map(({ value }) => value)), 0.05, Number.MIN_VALUE);
  const x = (value: number) => round(start + placeOn(scale, value) * (end - start));
  const bottom = top + row * bars.length;
  return document(title, bottom + 66, start, [
    ...marksOf(scale, 4).map(
      ({ at, text }) =>
        `<path d="M${x(at)} ${top}V${bottom}" stroke="${ink.grid}"/><text x="${x(at)}" y="${bottom + 18}" text-anchor="middle">${text}</text>`,
    ),
    ...bars.map(({ name, value, label, color }, index) => {
      const y = top + row * index;
      return `${text(name, start - 8, y + 16, 34, 'text-anchor="end"')}<rect x="${start}" y="${y + 4}" width="${round(x(value) - start)}" height="${row - 8}" fill="${color}"/><text x="${x(value) + 6}" y="${y + 16}">${escapeText(label)}</text>`;
    }),
    text(axis, (start + end) / 2, bottom + 38, 100, 'text-anchor="middle"'),
    text(source, start, bottom + 58, 100, small),
  ]);
}

const round = (value: number): number => Math.round(value * 100) / 100;

/** Shortens a text by its middle: names of runs often begin alike, and differ at the end. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  const half = Math.floor((length - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

const entities: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' };

/** Escapes a text for XML. Control characters, which XML forbids, become spaces. */
export const escapeText = (text: string): string =>
  text.replaceAll(/\p{Cc}/gu, ' ').replaceAll(/[&<>"]/g, (letter) => `&${entities[letter]};`);
