// Plots training losses as text for the terminal: coloured braille dots or, without colours, one character per curve.
import { type Axis, curvesInView, type Figure, FigureLines, plainChoice } from './figure.ts';
import { extentOf, marksOf, placeOn, type Scale, scaleOf } from './scale.ts';

/** Rows of the plot without axis and legend. */
const height = 16;

/** Colours a text for the terminal; `color` is a name for util.styleText, such as "red". */
type Paint = (color: string, text: string) => string;

/** A character for each curve when colours are not available. Where curves overlap, the later curve's character is shown. */
const marks = [...'o*+x#%@&=~^svw$'];

/** Bits of the eight dots in a braille character, by column (left, right) and row. */
const dots = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
] as const;

/** The plot as text. @param width columns, axis included @param paint colours a text; without `paint` each curve has its character */
export function terminalPlot(figure: Figure, { width, paint }: { readonly width: number; readonly paint?: Paint }) {
  const { axis } = figure;
  const curves = curvesInView(figure);
  const all = new FigureLines({ curves });
  const lines = all
    .lines({ ...plainChoice, series: 'train', smoothing: all.lightSmoothing })
    .map(({ points, smoothed = points }) => smoothed);
  const columns = Math.max(10, width - 9);
  const horizontal: Scale = { low: axis.first, high: axis.last || 1 };
  const vertical = scaleOf(extentOf(lines.flatMap(({ values }) => values)), 0.02);
  const cells = Array.from({ length: height }, () => Array.from({ length: columns }, () => ({ bits: 0, curve: -1 })));
  lines.forEach(({ steps, values }, curve) => {
    let from: [number, number] | undefined;
    for (const [index, value] of values.entries()) {
      const to: [number, number] | undefined = Number.isFinite(value)
        ? [placeOn(horizontal, steps[index]!) * (2 * columns - 1), (1 - placeOn(vertical, value)) * (4 * height - 1)]
        : undefined;
      if (to) drawTo(from ?? to, to, (x, y) => setDot(cells, x, y, curve));
      from = to;
    }
  });
  const rowOf = (value: number) => Math.round((1 - placeOn(vertical, value)) * (height - 1));
  const labels = new Map(marksOf(vertical, height / 4).map(({ at, text }) => [rowOf(at), text]));
  const colored = paint && ((curve: number, text: string) => paint(curves[curve]!.terminal, text));
  return [
    'training loss (nats), smoothed',
    ...cells.map((row, index) =>
      `${(labels.get(index) ?? '').padStart(7)} ${labels.has(index) ? '┤' : '│'}${drawRow(row, colored)}`.trimEnd(),
    ),
    ...horizontalAxis(horizontal, axis, columns),
    axis.label.padStart(Math.floor((columns + axis.label.length) / 2) + 9),
    ...curves.map(({ name }, curve) => `  ${colored?.(curve, '━━') ?? marks[curve % marks.length]} ${name}`),
  ].join('\n');
}

interface Cell {
  bits: number;
  /** Index of the last curve drawn in this cell; -1: none. */
  curve: number;
}

function drawRow(row: readonly Cell[], colored: ((curve: number, text: string) => string) | undefined): string {
  let text = '';
  for (let at = 0; at < row.length; ) {
    const { curve } = row[at]!;
    let piece = '';
    for (; row[at]?.curve === curve; at += 1) {
      if (curve < 0) piece += ' ';
      else piece += colored ? String.fromCodePoint(0x2800 + row[at]!.bits) : marks[curve % marks.length]!;
    }
    text += colored && curve >= 0 ? colored(curve, piece) : piece;
  }
  return text;
}

/** Calls `set` for the dots of a straight line between two points. */
function drawTo(from: readonly [number, number], to: readonly [number, number], set: (x: number, y: number) => void) {
  const length = Math.max(1, Math.ceil(Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]))));
  for (let at = 0; at <= length; at += 1) {
    set(from[0] + ((to[0] - from[0]) * at) / length, from[1] + ((to[1] - from[1]) * at) / length);
  }
}

function setDot(cells: Cell[][], x: number, y: number, curve: number): void {
  const [column, row] = [Math.round(x), Math.round(y)];
  const cell = cells[row >> 2]?.[column >> 1];
  if (!cell) return;
  cell.bits |= dots[(column & 1) as 0 | 1][(row & 3) as 0 | 1 | 2 | 3];
  cell.curve = curve;
}

function horizontalAxis(scale: Scale, { unit }: Axis, columns: number): string[] {
  const axis = Array.from({ length: columns }, () => '─');
  let labels = '';
  for (const { at, text } of marksOf(scale, Math.max(2, Math.floor(columns / 14)), unit === undefined)) {
    const column = Math.round(placeOn(scale, at) * (columns - 1));
    axis[column] = '┬';
    const start = Math.min(Math.max(0, column - Math.floor(text.length / 2)), columns - text.length);
    if (labels === '' || start > labels.length) labels = labels.padEnd(start) + text;
  }
  return [`${' '.repeat(8)}└${axis.join('')}`, `${' '.repeat(9)}${labels}`];
}
