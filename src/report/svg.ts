// Renders a figure as an SVG document, fit for print: panels one above the other over one horizontal axis, a legend, a source line.
// Equal input gives equal bytes. loss-plot.ts chooses what it shows.
import type { Axis } from './axis.ts';
import { linearScale, marksOn, type Scale } from './scale.ts';

/** The style of a series: a line (dashed or not), or marks, so that two differ without colour. */
export interface LineStyle {
  readonly color: string;
  /** SVG's stroke-dasharray; none or empty: a solid line. */
  readonly dash?: string;
  readonly mark?: 'dot' | 'ring';
  /** A line's width, or a mark's radius. */
  readonly size?: number;
  /** Below 1 the lines underneath show through. */
  readonly opacity?: number;
}

/** A series; at a point that is not finite the line is interrupted. */
export interface PlotLine {
  readonly points: readonly (readonly [x: number, y: number])[];
  readonly style: LineStyle;
}

export interface Panel {
  /** The quantity of the vertical axis, with its unit. */
  readonly label: string;
  readonly height: number;
  readonly scale: Scale;
  /** Drawn in this order, the last on top. */
  readonly lines: readonly PlotLine[];
}

export interface Figure {
  readonly title: string;
  readonly legend: readonly { readonly label: string; readonly style: LineStyle }[];
  readonly panels: readonly Panel[];
  readonly axis: Axis;
  /** Lines set small below: where the numbers come from. */
  readonly sources: readonly string[];
}

const width = 800;
const left = 72;
const right = width - 24;
const legendTop = 52;
const legendRow = 20;
const legendColumns = 2;
const panelGap = 22;
/** Below the last panel: ticks, the axis' label; then a row for each source. */
const foot = 62;
const sourceRow = 15;
const ink = { text: '#1a1a1a', axis: '#333', grid: '#e2e2e2', quiet: '#555' };

export function renderSvg(figure: Figure): string {
  const legendRows = Math.ceil(figure.legend.length / legendColumns);
  const places = figure.panels.flatMap(({ lines }) => lines.flatMap(({ points }) => points.map(([x]) => x)));
  const scale = linearScale(places, { count: 8, margin: 0 });
  const horizontal = { ...scale, ticks: marksOn(figure.axis, scale.ticks) };
  let bottom = legendTop + legendRows * legendRow - panelGap;
  const panels = figure.panels.map((panel, index) => {
    const top = bottom + panelGap;
    bottom = top + panel.height;
    return drawPanel(panel, horizontal, top, index === figure.panels.length - 1);
  });
  const height = bottom + foot + sourceRow * figure.sources.length;

  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="13" fill="${ink.text}">
<title>${escapeText(figure.title)}</title>
<rect width="${width}" height="${height}" fill="#fff"/>
<text x="${left}" y="28" font-size="16" font-weight="bold">${escapeText(shorten(figure.title, 68))}</text>
${figure.legend.map(({ label, style }, index) => legendEntry(label, style, index)).join('\n')}
${panels.join('\n')}
<text x="${(left + right) / 2}" y="${bottom + 42}" text-anchor="middle">${escapeText(figure.axis.label)}</text>
${figure.sources
  .map(
    (source, index) =>
      `<text x="${left}" y="${bottom + foot + sourceRow * index + 4}" font-size="11" fill="${ink.quiet}">${escapeText(shorten(source, 120))}</text>`,
  )
  .join('\n')}
</svg>
`;
}

function drawPanel({ label, height, scale, lines }: Panel, horizontal: Scale, top: number, isLast: boolean): string {
  const bottom = top + height;
  const x = (value: number) => round(left + horizontal.place(value) * (right - left));
  const y = (value: number) => round(bottom - scale.place(value) * height);
  const middle = top + height / 2;
  return [
    ...scale.ticks.map(
      (tick) =>
        `<path d="M${left} ${y(tick)}H${right}" stroke="${ink.grid}"/><text x="${left - 8}" y="${round(y(tick) + 4.5)}" text-anchor="end">${scale.format(tick)}</text>`,
    ),
    ...horizontal.ticks.map((tick) => {
      const mark = `<path d="M${x(tick)} ${bottom}v5" stroke="${ink.axis}"/>`;
      return isLast
        ? `${mark}<text x="${x(tick)}" y="${bottom + 20}" text-anchor="middle">${horizontal.format(tick)}</text>`
        : mark;
    }),
    `<path d="M${left} ${top}V${bottom}H${right}" fill="none" stroke="${ink.axis}"/>`,
    `<text transform="translate(18 ${middle}) rotate(-90)" text-anchor="middle">${escapeText(label)}</text>`,
    ...lines.map(({ points, style }) => drawLine(points, style, x, y)),
  ].join('\n');
}

type Place = (value: number) => number;

function drawLine(points: PlotLine['points'], style: LineStyle, x: Place, y: Place): string {
  if (style.mark) {
    const marks = points.filter(([, value]) => Number.isFinite(value));
    return `<g ${paint(style)}>${marks.map(([step, value]) => circle(x(step), y(value), style)).join('')}</g>`;
  }
  let path = '';
  let isDrawing = false;
  for (const [step, value] of points) {
    if (Number.isFinite(value)) path += `${isDrawing ? 'L' : 'M'}${x(step)} ${y(value)}`;
    isDrawing = Number.isFinite(value);
  }
  return `<path d="${path}" ${paint(style)}/>`;
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

const round = (value: number): number => Math.round(value * 100) / 100;

/** Shortens in the middle, because names of runs often begin alike and differ at the end. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  const half = Math.floor((length - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

/** As XML text; control characters, which XML cannot hold, become spaces. */
export const escapeText = (text: string): string =>
  text
    .replaceAll(/\p{Cc}/gu, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
