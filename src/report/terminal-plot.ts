// Plots training losses in the terminal: braille dots in colour, or one mark per curve without colour.
import type { Axis, Plotted } from './axis.ts';
import { linearScale, marksOn, type Scale } from './scale.ts';
import { type Placement, placeCurves } from './shown-curves.ts';

/** Rows of the plot without its axis and legend. */
const height = 16;

/** Colours text as a curve, by the curve's place. */
type Paint = (curve: number, text: string) => string;

/** Marks without colour, in the order of the curves; a later curve hides an earlier one. */
const marks = [...'o*+x#%@&=~^svw$'];

/** The bits of a braille character's dots: two columns of four. */
const dots = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
] as const;

/** The plot. `width`: columns of all of it; without `paint` each curve has a mark. */
export function terminalPlot(
  runs: readonly Plotted[],
  baselines: readonly Plotted[],
  { width, paint, over }: Pick<Placement, 'over'> & { readonly width: number; readonly paint?: Paint },
): string {
  const { curves, axis, last } = placeCurves(runs, baselines, { over });
  const columns = Math.max(10, width - 9);
  const lines = curves.map(({ plotted, place }) => place(plotted.series.train).filter(([at]) => at <= last));
  const horizontal = linearScale([0, last || 1], { count: Math.max(2, Math.floor(columns / 14)), margin: 0 });
  const vertical = linearScale(
    lines.flatMap((points) => points.map(([, value]) => value)),
    { count: Math.max(2, Math.floor(height / 4)), margin: 0.02 },
  );
  const cells = Array.from({ length: height }, () => Array.from({ length: columns }, () => ({ bits: 0, curve: -1 })));
  lines.forEach((points, curve) => {
    let from: [number, number] | undefined;
    for (const [at, value] of points) {
      const to: [number, number] | undefined = Number.isFinite(value)
        ? [horizontal.place(at) * (2 * columns - 1), (1 - vertical.place(value)) * (4 * height - 1)]
        : undefined;
      if (to) drawTo(from ?? to, to, (x, y) => setDot(cells, x, y, curve));
      from = to;
    }
  });
  const labels = new Map(
    vertical.ticks.map((tick) => [Math.round((1 - vertical.place(tick)) * (height - 1)), vertical.format(tick)]),
  );
  return [
    'training loss (nats per token)',
    ...cells.map((row, index) =>
      `${(labels.get(index) ?? '').padStart(7)} ${labels.has(index) ? '┤' : '│'}${drawRow(row, paint)}`.trimEnd(),
    ),
    ...horizontalAxis(horizontal, axis, columns),
    axis.label.padStart(Math.floor((columns + axis.label.length) / 2) + 9),
    ...[...curves.entries()].map(
      ([index, { plotted }]) => `  ${paint ? paint(index, '━━') : marks[index % marks.length]} ${plotted.name}`,
    ),
  ].join('\n');
}

interface Cell {
  bits: number;
  /** The last curve drawn here; -1: none. */
  curve: number;
}

function drawRow(row: readonly Cell[], paint: Paint | undefined): string {
  let text = '';
  for (let at = 0; at < row.length; ) {
    const { curve } = row[at]!;
    let piece = '';
    for (; row[at]?.curve === curve; at += 1) {
      if (curve < 0) piece += ' ';
      else piece += paint ? String.fromCodePoint(0x2800 + row[at]!.bits) : marks[curve % marks.length]!;
    }
    text += curve >= 0 && paint ? paint(curve, piece) : piece;
  }
  return text;
}

/** Draws every dot between two. */
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

function horizontalAxis({ ticks, place, format }: Scale, on: Axis, columns: number): string[] {
  const axis = Array.from({ length: columns }, () => '─');
  let labels = '';
  for (const tick of marksOn(on, ticks)) {
    const column = Math.round(place(tick) * (columns - 1));
    axis[column] = '┬';
    const label = format(tick);
    const start = Math.min(Math.max(0, column - Math.floor(label.length / 2)), columns - label.length);
    if (labels === '' || start > labels.length) labels = labels.padEnd(start) + label;
  }
  return [`${' '.repeat(8)}└${axis.join('')}`, `${' '.repeat(9)}${labels}`];
}
