// A picture is all that the plot shows at one moment. This file makes uPlot's settings and data from it: the axes, the two edges of
// the band of losses that `compare` allows, then for each curve a line and, if smoothed, a second line on top.
import uPlot from 'uplot';
import { type Axis, type Line, type Look, partOf } from '../figure.ts';
import type { Points } from '../points.ts';
import { marksOf, type Scale, scaleOf } from '../scale.ts';
import { colorOf } from './elements.ts';

/** The visible section of the plot. It can change without a new uPlot object. */
export interface View {
  readonly from: number;
  readonly to: number;
  /** The ends of the vertical axis; undefined: fitted to the visible values. */
  readonly range: Scale | undefined;
  readonly cursor: number | undefined;
}

export interface Picture {
  readonly view: View;
  readonly lines: readonly Line[];
  readonly band: Points | undefined;
  readonly isLog: boolean;
  readonly label: string;
  readonly axis: Axis;
  readonly baseline: number;
  readonly looks: readonly { readonly colors: Look['light']; readonly dash: Look['dash'] }[];
  readonly isDark: boolean;
}

/** uPlot's series: the steps, the two edges of the limit band, then the lines. */
export const seriesOf = (picture: Picture): uPlot.Series[] => [
  {},
  ...bandSeries(picture),
  ...picture.lines.flatMap((line) => lineSeries(picture, line)),
];

/** For each uPlot series the points on which the cursor shows a dot; undefined: no dot. A raw line below a smoothed line has no dot. */
export const dottedPoints = (picture: Picture): (Points | undefined)[] => [
  undefined,
  ...bandSeries(picture).map(() => undefined),
  ...picture.lines.flatMap(({ points, smoothed }) => (smoothed ? [undefined, smoothed] : [points])),
];

/** Line width in pixels. The baseline is wider than the runs drawn over it: where a run equals the baseline, the baseline's edges show. */
const widthOf = ({ baseline }: Picture, { curve, series }: Line): number =>
  (curve === baseline ? 4.6 : 1.6) + (series === 'val' ? 0.8 : 0);

function lineSeries(picture: Picture, line: Line): uPlot.Series[] {
  const { curve, series, points, smoothed } = line;
  const color = picture.looks[curve]!.colors[partOf(series)];
  const faint = smoothed ? `${color}4d` : color;
  const width = widthOf(picture, line);
  if (series === 'val') {
    // Leave a gap after step 0: the loss of untrained weights is high, and a line from this loss would cross the whole plot.
    const gaps: uPlot.Series['gaps'] = ({ valToPos }, _, __, ___, others) =>
      points.steps[0] === 0 && points.steps.length > 1
        ? [[valToPos(0, 'x', true), valToPos(points.steps[1]!, 'x', true)], ...others]
        : others;
    return [{ stroke: color, width, gaps, points: { size: width + 5, width: 0, fill: color } }];
  }
  const raw = { stroke: faint, width, points: { size: 6, space: 16, width: 0, fill: faint } };
  return smoothed ? [raw, { stroke: color, width: width + 0.4, points: { show: false } }] : [raw];
}

/** The upper and the lower edge of the limit band. On a logarithmic axis the lower edge is invisible at the axis's end. */
function bandSeries({ band, isLog }: Picture): uPlot.Series[] {
  if (!band) return [];
  const points = { show: false };
  const stroke = `${colorOf('band')}b3`;
  return [{ stroke, points }, isLog ? { points } : { stroke, points }];
}

/** The union of all series' steps, and each series' values at these steps, as uPlot needs them. */
export function alignedData({ lines, band, isLog }: Picture): uPlot.AlignedData {
  const finite = (values: readonly number[]) => values.map((value) => (Number.isFinite(value) ? value : null));
  const tables = lines.map(({ points, smoothed }) => [
    [...points.steps],
    finite(points.values),
    ...(smoothed ? [finite(smoothed.values)] : []),
  ]);
  if (band)
    tables.unshift([[...band.steps], ...[1, isLog ? 0 : -1].map((side) => finite(band.values.map((v) => v * side)))]);
  return tables.length === 0 ? [[]] : uPlot.join(tables as uPlot.AlignedData[]);
}

/**
 * Adapts widths and dashes to the number of visible points. Dashes tell equal curves apart, but look like noise on a dense or faint line.
 * The densest lines are 1 pixel wide: without a GPU, browsers draw them six times as fast as wider lines.
 */
export function adaptLines({ series, bbox }: uPlot, picture: Picture): void {
  const { lines, looks, view, band } = picture;
  let at = band ? 3 : 1;
  for (const line of lines) {
    const seen = line.points.steps.filter((step) => step >= view.from && step <= view.to).length;
    const drawn = series[at]!;
    series[line.smoothed ? at + 1 : at]!.dash = seen < bbox.width / 4 ? [...looks[line.curve]!.dash] : undefined;
    // Show the marks of validations if few are visible. Count only this curve's marks: uPlot would count the steps of all series.
    if (line.series === 'val') drawn.points!.show = () => seen < bbox.width / 20;
    drawn.width = line.smoothed || seen > 2 * bbox.width ? 1 : widthOf(picture, line);
    at += line.smoothed ? 2 : 1;
  }
}

const font = '12px system-ui';

export function axesOf({ isLog, axis }: Picture, size: { width: number; height: number }): uPlot.Axis[] {
  const common: uPlot.Axis = {
    font,
    labelFont: font,
    stroke: () => colorOf('quiet'),
    ticks: { show: false },
    border: { show: true, stroke: () => colorOf('axis'), width: 1 },
  };
  const grid = { stroke: () => colorOf('grid'), width: 1 };
  const marks = (scale: Scale, pixels: number, isWhole = false) => marksOf(scale, Math.max(2, pixels), isWhole);
  const across = (low: number, high: number) => marks({ low, high }, size.width / 110, axis.unit === undefined);
  const up = (low: number, high: number) => marks({ low, high, isLog }, size.height / 70);
  return [
    {
      ...{ ...common, grid, label: axis.label, labelSize: 24, size: 26, gap: 8 },
      splits: (_, __, from, to) => across(from, to).map(({ at }) => at),
      values: ({ scales: { x } }) => across(x!.min!, x!.max!).map(({ text }) => text),
    },
    {
      ...{ ...common, gap: 9 },
      splits: (_, __, low, high) => up(low, high).map(({ at }) => at),
      // Keep all marks as labels and grid lines: uPlot's default filter drops some on a logarithmic axis.
      filter: (_, marks) => marks,
      grid: { ...grid, filter: (_, marks) => marks },
      values: ({ scales: { y } }) => up(y!.min ?? 0, y!.max ?? 1).map(({ text }) => text),
      size: ({ ctx }, texts) => {
        // Save the canvas settings and restore them below, because uPlot relies on them.
        ctx.save();
        ctx.font = font;
        const widths = (texts ?? []).map((text) => ctx.measureText(text).width);
        ctx.restore();
        return Math.ceil(Math.max(30, ...widths)) + 20;
      },
    },
  ];
}

/** Ends of the vertical axis: the ends of the dragged zoom box, or the extent of the visible values with a margin. */
export function endsOf(
  { view: { range }, isLog }: Picture,
  least: number | null,
  largest: number | null,
): [number, number] {
  const extent = least === null || largest === null || least > largest ? undefined : ([least, largest] as const);
  // Show at most six decades of a logarithmic axis: a single tiny difference would flatten all others.
  const floor = isLog ? (extent ? extent[1] / 1e6 : 0.1) : undefined;
  const { low, high } = range ?? scaleOf(extent, 0.04, floor);
  return [low, high];
}

/** Draws a horizontal line at zero if visible values are on both sides of it. */
export function drawZero({ ctx, bbox, scales, valToPos }: uPlot): void {
  const { min = 0, max = 0, distr } = scales.y!;
  if (min >= 0 || max <= 0 || distr === 3) return;
  ctx.save();
  ctx.fillStyle = colorOf('axis');
  ctx.fillRect(bbox.left, Math.round(valToPos(0, 'y', true)), bbox.width, 1);
  ctx.restore();
}
