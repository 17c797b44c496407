// Draws a figure as an SVG document: panels with losses, their difference from the baseline, gradient norm, learning rate.
import {
  type Choice,
  type Curve,
  curvesInView,
  type Figure,
  FigureLines,
  keyOf,
  type Line,
  legendOf,
  partOf,
  plainChoice,
  type Shown,
  seriesLabels,
} from './figure.ts';
import { thin } from './points.ts';
import { type LineStyle, type Panel, type PlotLine, renderSvg } from './svg.ts';

const limitStyle: LineStyle = { color: '#767676', dash: '1 3' };

/** Lower end of the logarithmic axis of loss differences. Losses are printed with four decimals, so smaller differences do not count. */
const leastDifference = 1e-5;

/** Lower end of the logarithmic axis of gradient norms. A norm of zero is drawn at this end. */
const leastNorm = 1e-6;

/** Number of columns for thinning a curve (see `thin`): a column is half a pixel wide on screen, 0.1 mm on paper. */
const columns = 1500;
/** Most validations of a curve that are drawn as marks. If any curve has more, the validations of all curves are lines. */
const mostMarks = 60;

/** The SVG document, up to the runs' last step. Differences have a separate panel, because nearly equal losses hide each other. */
export function lossPlot(figure: Figure): string {
  const { title, axis, baseline, baselines, sources } = figure;
  const curves = curvesInView(figure);
  const lines = new FigureLines({ curves });
  const isBeneath = (curve: number) => baseline === 0 && curve < Math.max(1, baselines);
  const styles = stylesOf(curves, isBeneath);
  const plain = { ...plainChoice, baseline, smoothing: lines.lightSmoothing };
  const drawn = (choice: Choice, look?: Partial<LineStyle>) =>
    lines.lines(choice).flatMap((line): PlotLine[] => {
      const { curve, series } = line;
      if (choice.isDifference && curves[curve]!.leftOut.includes(series)) return [];
      const style = styles[curve]![partOf(series)];
      return linesOf(line, series === 'val' ? style : { ...style, ...look });
    });
  const beneath = [...curves.keys()].filter(isBeneath);
  const hidden = new Set(beneath.flatMap((curve) => [keyOf(curve, 'train'), keyOf(curve, 'val')]));
  // Do not smooth differences, so that even a single step beyond its limit is visible.
  const apart: Choice = { ...plain, series: 'loss', isLog: true, isDifference: true, smoothing: 0, hidden };
  const band = lines.band(apart);
  const limit = band?.values.some(Number.isFinite) ? linesOf({ points: band }, limitStyle) : [];
  const panel = (series: Shown, height: number, marks: number, floor?: number): Panel => ({
    ...{ label: seriesLabels[series].long, height, marks, floor, lines: drawn({ ...plain, series }) },
  });
  const differences: Panel = {
    ...{ label: '|difference| of loss', height: 150, marks: 4, floor: leastDifference },
    lines: [...limit, ...drawn(apart, { dash: '', size: 1.2 })],
  };
  const entries = legendOf({ curves, baselines }, 'loss');
  return renderSvg({
    title,
    legend: [
      ...entries.map(({ label, curve, part }) => ({ label, style: styles[curve]![part] })),
      ...limit.map(({ style }) => ({ label: limitLabel(curves[0]!), style })),
    ],
    panels: [
      panel('loss', 300, 9),
      ...(baseline === 0 ? [differences] : []),
      // Norms need a logarithmic axis: they fall by a factor of ten or more in the first steps.
      panel('norm', 120, 4, leastNorm),
      panel('lr', 100, 4),
    ],
    axis,
    sources: [
      ...sources,
      ...(baseline === 0 && baselines > 1 ? [`difference: from ${curves[0]!.name}`] : []),
      'losses and norms are lightly smoothed; faint: every value',
    ],
  });
}

function limitLabel({ limits: { train = [] } }: Curve): string {
  const always = train.find(({ to }) => to === Number.MAX_SAFE_INTEGER);
  return always ? `limit ${always.within}` : 'limit of a training step';
}

/** Styles of each curve. Validations are rings of growing size for baselines and dots for runs, or lines if there are over `mostMarks`. */
function stylesOf(curves: readonly Curve[], isBeneath: (curve: number) => boolean) {
  const isLine = curves.some(({ series }) => (series.val?.steps.length ?? 0) > mostMarks);
  return curves.map(({ light, dash }, curve): Record<'train' | 'val', LineStyle> => {
    const color = light.val;
    const ring: LineStyle = isLine ? { color, size: 4.5, opacity: 0.5 } : { color, mark: 'ring', size: 6 + 2 * curve };
    const dot: LineStyle = isLine ? { color, size: 2.2, dash: '1 3' } : { color, mark: 'dot' };
    return { train: { color: light.train, dash: dash.join(' ') }, val: isBeneath(curve) ? ring : dot };
  });
}

/** The lines to draw for one curve, thinned unless the style has marks. A smoothed curve gives a faint raw line and a smooth line. */
function linesOf({ points, smoothed }: Pick<Line, 'points' | 'smoothed'>, style: LineStyle): PlotLine[] {
  if (style.mark) return [{ points, style }];
  const drawn = thin(points, columns);
  if (!smoothed) return [{ points: drawn, style }];
  const faint = { color: style.color, size: 0.6, opacity: 0.35 };
  return [
    { points: drawn, style: faint },
    { points: thin(smoothed, columns / 4), style },
  ];
}
