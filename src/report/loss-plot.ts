// Makes the figure of runs, alone or over baselines: losses, their difference from the baseline, gradient norm, learning rate.
// ../compare judges the limits, svg.ts draws the figure.
import { unlike } from '../runs/measured.ts';
import type { Series } from '../runs/reader.ts';
import type { Plotted } from './axis.ts';
import { limitsOf, pairsOf } from './compare/compare.ts';
import type { Limit } from './compare/reference.ts';
import { type Points, smooth, thin } from './points.ts';
import { linearScale, logScale } from './scale.ts';
import { type Curve, type PlacedCurve, type Placement, placeCurves, sourceLines } from './shown-curves.ts';
import { type Figure, type LineStyle, type PlotLine, renderSvg } from './svg.ts';

const limitStyle: LineStyle = { color: '#767676', dash: '1 3' };

/** Losses are printed with four decimals: smaller differences count as zero. */
const leastDifference = 1e-5;

/** Smaller norms are drawn as this one: a logarithmic axis has no zero. */
const leastNorm = 1e-6;

/** Curves with more points are drawn twice: every step faintly, and over it their moving average. */
const mostPoints = 2000;
/** Steps of a moving average: the fewest that show a curve's trend through its noise. */
const averaged = (count: number): number => Math.max(20, count / 500);
/** Columns of the faint curve: half a pixel on the screen, a tenth of a millimetre on paper. */
const columns = 1500;
/** More validations than these are drawn as a line. */
const mostMarks = 60;

/**
 * The SVG of runs. The difference from the first baseline (or, without one, from the first of several runs) has its own panel,
 * because equal curves cover each other in one plot.
 * @param tolerance replaces the reference's limits, as in `compareSeries`
 */
export function lossPlot(
  runs: readonly Plotted[],
  baselines: readonly Plotted[] = [],
  { tolerance, ...placement }: Placement & { readonly tolerance?: number } = {},
): string {
  const { title, axis, last, curves: drawn } = placeCurves(runs, baselines, placement);
  const upToLast = ({ plotted, place }: PlacedCurve, of: 'train' | 'val' | 'norm' | 'lr'): Series =>
    place(plotted.series[of]).filter(([at]) => at <= last);
  const manyMarks = drawn.some((curve) => upToLast(curve, 'val').length > mostMarks);
  const curves = drawn.map((curve, index) => ({
    ...curve,
    line: { color: curve.light, dash: curve.dash.join(' ') },
    marks: validationStyle(curve, index, manyMarks),
  }));
  const linesOfAll = (of: 'train' | 'norm' | 'lr'): PlotLine[] =>
    curves.flatMap((curve) => linesOf(upToLast(curve, of), curve.line, of !== 'lr'));
  const losses = [
    ...linesOfAll('train'),
    ...curves.map((curve) => ({ points: upToLast(curve, 'val'), style: curve.marks })),
  ];
  const baseline = curves.find(({ isBaseline }) => isBaseline)?.plotted;
  const limited = baseline ? limitLine(limitsOf('train', baseline, tolerance), last) : [];
  const differences: PlotLine[] = [
    { points: limited, style: limitStyle },
    ...curves.flatMap(({ plotted, isBaseline, light, marks }): PlotLine[] => {
      if (!baseline || isBaseline) return [];
      const { leftOut } = unlike(plotted, baseline);
      const [train, val] = (['train', 'val'] as const).map((of) =>
        leftOut.includes(of) ? [] : distance(plotted.series[of], baseline.series[of]),
      );
      return [...linesOf(train!, { color: light, size: 1.2 }, true), { points: val!, style: marks }];
    }),
  ];
  const [norms, rates] = [linesOfAll('norm'), linesOfAll('lr')];
  const panels = [
    { label: 'loss (nats per token)', height: 300, lines: losses, scale: linear(losses, 9) },
    ...(baseline
      ? [
          {
            label: '|difference| of loss',
            height: 150,
            lines: differences,
            scale: logarithmic(differences, leastDifference),
          },
        ]
      : []),
    // Norms fall by a factor of ten or more within the first steps.
    { label: 'gradient norm', height: 120, lines: norms, scale: logarithmic(norms, leastNorm) },
    { label: 'learning rate', height: 100, lines: rates, scale: linear(rates, 4) },
  ];
  const limitLabel = tolerance === undefined ? 'limit of a training step' : `limit ${tolerance}`;
  const legend: Figure['legend'] = [
    // Runs come before baselines, because the figure is about them.
    ...[...curves.slice(baselines.length), ...curves.slice(0, baselines.length)].flatMap(({ plotted, line, marks }) => [
      { label: `${plotted.name}, train`, style: line },
      { label: `${plotted.name}, validation`, style: marks },
    ]),
    ...(limited.length > 0 ? [{ label: limitLabel, style: limitStyle }] : []),
  ];
  const isAveraged = curves.some((curve) => upToLast(curve, 'train').length > mostPoints);
  return renderSvg({
    title,
    legend,
    panels,
    axis,
    sources: [
      ...sourceLines(runs, baselines),
      ...(baseline && baselines.length > 1 ? [`difference: from ${baselines[0]!.name}`] : []),
      ...(isAveraged ? ['lines: moving averages; faint: every step'] : []),
    ],
  });
}

/** Rings of growing size beneath, dots on top; lines if there are many. */
function validationStyle({ light, isBaseline }: Curve, index: number, isLine: boolean): LineStyle {
  if (isLine) return isBaseline ? { color: light, size: 4.5, opacity: 0.5 } : { color: light, size: 2.2, dash: '1 3' };
  return isBaseline ? { color: light, mark: 'ring', size: 6 + 2 * index } : { color: light, mark: 'dot' };
}

/** A curve; a long one as a faint line and its moving average. A learning rate has no noise to average. */
function linesOf(points: Series, style: LineStyle, isNoisy: boolean): PlotLine[] {
  if (points.length <= mostPoints) return [{ points, style }];
  const steps = Float64Array.from(points, ([step]) => step);
  const whole = { steps, values: Float64Array.from(points, ([, value]) => value) };
  const drawn = (some: Points, count: number): Series => {
    const kept = thin(some, steps[0]!, steps.at(-1)!, count);
    return Array.from(kept.steps, (step, index) => [step, kept.values[index]!] as const);
  };
  if (!isNoisy) return [{ points: drawn(whole, columns / 4), style }];
  const average = smooth(whole, 1 - 1 / averaged(points.length));
  return [
    { points: drawn(whole, columns), style: { color: style.color, size: 0.6, opacity: 0.25 } },
    { points: drawn(average, columns / 4), style },
  ];
}

/** The difference allowed to a training step, up to the runs' last step. */
function limitLine(limits: readonly Limit[], lastStep: number): Series {
  return limits
    .filter(({ kind, from }) => kind !== 'mean' && from <= lastStep)
    .flatMap(({ from, to, within }): Series => {
      const last = Math.min(to, lastStep);
      // The line is interrupted between two limits, where neither applies.
      return [
        [from, within],
        [last, within],
        [last, Number.NaN],
      ];
    });
}

const distance = (run: Series, baseline: Series): Series =>
  pairsOf(run, baseline).map(({ step, difference }) => [step, difference]);

const valuesOf = (lines: readonly PlotLine[]): number[] =>
  lines.flatMap(({ points }) => points.map(([, value]) => value));

const linear = (lines: readonly PlotLine[], count: number) => linearScale(valuesOf(lines), { count, margin: 0.05 });
const logarithmic = (lines: readonly PlotLine[], floor: number) => logScale(valuesOf(lines), { floor, margin: 0.05 });
