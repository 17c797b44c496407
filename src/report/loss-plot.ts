// Draws a figure as an SVG document (svg.ts): losses, their difference from the baseline, gradient norm, learning rate.
import { type Choice, type Curve, curvesInView, type Figure, FigureLines, type Shown, seriesLabels } from './figure.ts';
import { type Points, smooth, thin } from './points.ts';
import { type LineStyle, type Panel, type PlotLine, renderSvg } from './svg.ts';

const limitStyle: LineStyle = { color: '#767676', dash: '1 3' };

/** Losses are printed with four decimals: smaller differences count as zero. */
const leastDifference = 1e-5;

/** The smallest norm drawn, in place of smaller ones: a logarithmic axis has no zero. */
const leastNorm = 1e-6;

/** Curves with more points are drawn twice: every step faintly, and their moving average on top. */
const mostPoints = 2000;
/** Steps of a moving average: the fewest that show a curve's trend through its noise. */
const averaged = (count: number): number => Math.max(20, count / 500);
/** Columns of the faint curve: half a pixel on the screen, a tenth of a millimetre on paper. */
const columns = 1500;
/** With more validations than this, they are drawn as a line. */
const mostMarks = 60;

/**
 * The figure up to the runs' last step. The difference has a separate panel, because equal curves cover each other in one plot.
 */
export function lossPlot(figure: Figure): string {
  const { title, axis, baseline, baselines, sources } = figure;
  const curves = curvesInView(figure);
  const lines = new FigureLines({ curves });
  const isBeneath = (curve: number) => baseline === 0 && curve < Math.max(1, baselines);
  const styles = stylesOf(curves, isBeneath);
  const plain = { baseline, isLog: false, isDifference: false, smoothing: 0, hidden: new Set<number>() };
  const drawn = (choice: Choice, look?: Partial<LineStyle>) =>
    lines.lines(choice).flatMap(({ curve, series, points, isHeavy }): PlotLine[] => {
      if (choice.isDifference && curves[curve]!.leftOut.includes(series)) return [];
      const { train, val } = styles[curve]!;
      return isHeavy ? [{ points, style: val }] : linesOf(points, { ...train, ...look }, series !== 'lr');
    });
  const hidden = new Set([...curves.keys()].filter(isBeneath));
  const apart: Choice = { ...plain, series: 'loss', isLog: true, isDifference: true, hidden };
  const band = lines.band(apart);
  const limit = band?.values.some(Number.isFinite) ? linesOf(band, limitStyle, false) : [];
  const entries = curves.map(({ name }, curve) => [
    { label: `${name}, train`, style: styles[curve]!.train },
    { label: `${name}, validation`, style: styles[curve]!.val },
  ]);
  const isAveraged = curves.some(({ series }) => countOf(series.train) > mostPoints);
  const panel = (series: Shown, height: number, marks: number, floor?: number): Panel => ({
    ...{ label: seriesLabels[series].long, height, marks, floor, lines: drawn({ ...plain, series }) },
  });
  const differences: Panel = {
    ...{ label: '|difference| of loss', height: 150, marks: 4, floor: leastDifference },
    lines: [...limit, ...drawn(apart, { dash: '', size: 1.2 })],
  };
  return renderSvg({
    title,
    // Runs come before baselines, because the figure is about them.
    legend: [
      ...[...entries.slice(baselines), ...entries.slice(0, baselines)].flat(),
      ...limit.map(({ style }) => ({ label: limitLabel(curves[0]!), style })),
    ],
    panels: [
      panel('loss', 300, 9),
      ...(baseline === 0 ? [differences] : []),
      // Norms fall by a factor of ten or more within the first steps.
      panel('norm', 120, 4, leastNorm),
      panel('lr', 100, 4),
    ],
    axis,
    sources: [
      ...sources,
      ...(baseline === 0 && baselines > 1 ? [`difference: from ${curves[0]!.name}`] : []),
      ...(isAveraged ? ['lines: moving averages; faint: every step'] : []),
    ],
  });
}

const countOf = (points: Points | undefined): number => points?.steps.length ?? 0;

function limitLabel({ limits: { train = [] } }: Curve): string {
  const always = train.find(({ to }) => to === Number.MAX_SAFE_INTEGER);
  return always ? `limit ${always.within}` : 'limit of a training step';
}

/** Validations are rings of growing size below, dots above; lines if there are many. */
function stylesOf(curves: readonly Curve[], isBeneath: (curve: number) => boolean) {
  const isLine = curves.some(({ series }) => countOf(series.val) > mostMarks);
  return curves.map(({ light: color, dash }, curve): Record<'train' | 'val', LineStyle> => {
    const ring: LineStyle = isLine ? { color, size: 4.5, opacity: 0.5 } : { color, mark: 'ring', size: 6 + 2 * curve };
    const dot: LineStyle = isLine ? { color, size: 2.2, dash: '1 3' } : { color, mark: 'dot' };
    return { train: { color, dash: dash.join(' ') }, val: isBeneath(curve) ? ring : dot };
  });
}

/** A curve; a long one as a faint line and its moving average. A learning rate has no noise to average. */
function linesOf(points: Points, style: LineStyle, isNoisy: boolean): PlotLine[] {
  const count = points.steps.length;
  if (count <= mostPoints) return [{ points, style }];
  if (!isNoisy) return [{ points: thin(points, columns / 4), style }];
  return [
    { points: thin(points, columns), style: { color: style.color, size: 0.6, opacity: 0.25 } },
    { points: thin(smooth(points, 1 - 1 / averaged(count)), columns / 4), style },
  ];
}
