// The curves of the plot as uPlot's series: the two edges of the limits' band, then each line and, over it, its smoothed form.
import uPlot from 'uplot';
import type { Points } from '../points.ts';
import { colorOf } from './elements.ts';
import type { Line, Picture } from './page-model.ts';

/** uPlot's first series are the steps. */
export const seriesOf = (picture: Picture): uPlot.Series[] => [
  {},
  ...bandSeries(picture),
  ...picture.lines.flatMap((line) => lineSeries(picture, line)),
];

/** The points behind each series that shows a dot at the cursor: of a smoothed line only the smooth form. */
export const dottedPoints = (picture: Picture): (Points | undefined)[] => [
  undefined,
  ...bandSeries(picture).map(() => undefined),
  ...picture.lines.flatMap(({ points, smoothed }) => (smoothed ? [undefined, smoothed] : [points])),
];

/** Runs are drawn over a wider baseline: where curves are equal, both are seen. */
const widthOf = ({ baseline }: Picture, { curve, isHeavy }: Line): number =>
  (curve === baseline ? 4.6 : 1.6) + (isHeavy ? 1.4 : 0);

const countInView = ({ steps }: Points, { from, to }: Picture['view']): number =>
  steps.filter((step) => step >= from && step <= to).length;

function lineSeries(picture: Picture, line: Line): uPlot.Series[] {
  const { curve, smoothed, isHeavy } = line;
  const color = picture.looks[curve]!.color;
  const faint = smoothed ? `${color}4d` : color;
  const width = widthOf(picture, line);
  if (isHeavy) return [{ stroke: color, width, points: { size: width + 5, width: 0, fill: color } }];
  const raw = { stroke: faint, width, points: { size: 6, space: 16, width: 0, fill: faint } };
  return smoothed ? [raw, { stroke: color, width: width + 0.4, points: { show: false } }] : [raw];
}

/** The upper and the lower edge; on a logarithmic axis the lower one is the axis. */
function bandSeries({ band, isLog }: Picture): uPlot.Series[] {
  if (!band) return [];
  const points = { show: false };
  const stroke = `${colorOf('band')}b3`;
  return [{ stroke, points }, isLog ? { points } : { stroke, points }];
}

/** All series at the steps that any of them has. */
export function alignedData({ lines, band, isLog }: Picture): uPlot.AlignedData {
  const finite = (values: Float64Array) => Array.from(values, (value) => (Number.isFinite(value) ? value : null));
  const tables = lines.map(({ points, smoothed }) => [
    [...points.steps],
    finite(points.values),
    ...(smoothed ? [finite(smoothed.values)] : []),
  ]);
  if (band) {
    const lower = band.values.map((value) => value * (isLog ? 0 : -1));
    tables.unshift([[...band.steps], finite(band.values), finite(lower)]);
  }
  return tables.length === 0 ? [[]] : uPlot.join(tables as uPlot.AlignedData[]);
}

/**
 * Adapts lines to the number of points in view. Dashes tell two equal curves apart, but are noise on a dense one. The densest
 * are thin, which without a GPU are drawn six times as fast.
 */
export function adaptLines({ series, bbox }: uPlot, picture: Picture): void {
  const { lines, looks, view, band } = picture;
  let at = band ? 3 : 1;
  for (const line of lines) {
    const seen = countInView(line.points, view);
    const drawn = series[at]!;
    drawn.dash = seen < bbox.width / 4 && !line.isHeavy ? [...looks[line.curve]!.dash] : undefined;
    // uPlot would decide by the number of all series' steps.
    if (line.isHeavy) drawn.points!.show = () => seen < bbox.width / 20;
    drawn.width = line.smoothed || seen > 2 * bbox.width ? 1 : widthOf(picture, line);
    at += line.smoothed ? 2 : 1;
  }
}
