// The figure of a run, alone or over references: losses, how far they are from the reference, gradient norm, learning rate.
// Which of them are inside the limits is left to ../compare; how a figure is drawn to svg.ts.
import type { Limit, Reference } from '../compare/reference.ts';
import type { RunRecord, Series } from '../runs/reader.ts';
import { linearScale, logScale } from './scale.ts';
import { type Figure, type LineStyle, type Panel, type PlotLine, renderSvg } from './svg.ts';

// Colours that colour-blind readers can tell apart; in print the dashes and the rings do it.
const ours = '#0072b2';
const grey = '#767676';
const theirs: readonly LineStyle[] = [
  { color: '#d55e00' },
  { color: '#009e73', dash: '2 2' },
  { color: '#cc79a7', dash: '9 3 2 3' },
];
const validationOfOurs: LineStyle = { color: ours, mark: 'dot' };
const limitStyle: LineStyle = { color: grey, dash: '1 3' };

/** Losses were printed with four decimals: differences below this one are none. */
const leastDifference = 1e-5;

/** Norms below this are drawn as this: a gradient of zero has no place on a logarithmic axis. */
const leastNorm = 1e-6;

interface LossPlotOptions {
  /** In place of the reference's limits, as `compareSeries` takes it. */
  readonly tolerance?: number;
}

/**
 * The SVG of a run. With references each is drawn up to the run's last step, and the run's distance from the first has a
 * panel of its own, since on one plot equal curves only cover each other.
 */
export function lossPlot(
  name: string,
  { series }: Pick<RunRecord, 'series'>,
  references: readonly Reference[],
  { tolerance }: LossPlotOptions = {},
): string {
  const lastStep = Math.max(series.train.at(-1)?.[0] ?? 0, series.val.at(-1)?.[0] ?? 0);
  const upToLast = (points: Series): Series => points.filter(([step]) => step <= lastStep);
  const styleOf = (index: number): LineStyle => theirs[index % theirs.length]!;
  const ringOf = (index: number): LineStyle => ({ color: styleOf(index).color, mark: 'ring', size: 6 + 2 * index });
  const trainOfOurs: LineStyle = references.length > 0 ? { color: ours, dash: '7 4' } : { color: ours };

  /** One line for each reference, then the run's, which lies on top. */
  const over = (of: 'train' | 'norm' | 'lr'): PlotLine[] => [
    ...references.map((reference, index) => ({ points: upToLast(reference.series[of]), style: styleOf(index) })),
    { points: series[of], style: trainOfOurs },
  ];
  const losses = [
    ...over('train'),
    ...references.map((reference, index) => ({ points: upToLast(reference.series.val), style: ringOf(index) })),
    { points: series.val, style: validationOfOurs },
  ];
  const [reference] = references;
  const limited = reference ? limitLine(reference, lastStep, tolerance) : [];
  const panels = [
    linearPanel('loss (nats per token)', 300, losses, 7),
    ...(reference ? [differencePanel(series, reference, limited)] : []),
    normPanel(over('norm')),
    linearPanel('learning rate', 100, over('lr'), 4),
  ];
  const legend: Figure['legend'] = [
    { label: `${name}, train`, style: trainOfOurs },
    { label: `${name}, validation`, style: validationOfOurs },
    ...references.flatMap(({ name: label }, index) => [
      { label: `${label}, train`, style: styleOf(index) },
      { label: `${label}, validation`, style: ringOf(index) },
    ]),
    ...(limited.length > 0
      ? [{ label: tolerance === undefined ? 'limit of a training step' : `tolerance ${tolerance}`, style: limitStyle }]
      : []),
  ];
  return renderSvg({
    title: reference ? `${name} over ${references.map((one) => one.name).join(', ')}` : name,
    legend,
    panels,
    xLabel: 'step',
    source: sourceLine(references),
  });
}

function linearPanel(label: string, height: number, lines: readonly PlotLine[], count: number): Panel {
  return { label, height, scale: linearScale(valuesOf(lines), { count, margin: 0.05 }), lines };
}

/** Logarithmic: norms fall by a factor of ten and more within the first steps. */
function normPanel(lines: readonly PlotLine[]): Panel {
  const scale = logScale(valuesOf(lines), { floor: leastNorm, margin: 0.05 });
  return { label: 'gradient norm', height: 120, scale, lines };
}

function differencePanel(run: RunRecord['series'], reference: Reference, limited: Series): Panel {
  const lines: PlotLine[] = [
    { points: limited, style: limitStyle },
    { points: distance(run.train, reference.series.train), style: { color: ours, size: 1.2 } },
    { points: distance(run.val, reference.series.val), style: validationOfOurs },
  ];
  const scale = logScale(valuesOf(lines), { floor: leastDifference, margin: 0.05 });
  return { label: '|difference| of loss', height: 150, scale, lines };
}

/** What a training step may be off by, as far as the run goes. */
function limitLine({ limits }: Reference, lastStep: number, tolerance: number | undefined): Series {
  const drawn: readonly Limit[] =
    tolerance === undefined ? limits : [{ series: 'train', from: 0, to: lastStep, within: tolerance }];
  return drawn
    .filter(({ series, kind, from }) => series === 'train' && kind !== 'mean' && from <= lastStep)
    .flatMap(({ from, to, within }): Series => {
      const end = Math.min(to, lastStep);
      // The NaN interrupts the line: the next limit is one of its own.
      return [
        [from, within],
        [end, within],
        [end, Number.NaN],
      ];
    });
}

function distance(run: Series, reference: Series): Series {
  const recorded = new Map(reference);
  return run.flatMap(([step, value]): Series => {
    const wanted = recorded.get(step);
    return wanted === undefined ? [] : [[step, Math.abs(value - wanted)]];
  });
}

const valuesOf = (lines: readonly PlotLine[]): number[] =>
  lines.flatMap(({ points }) => points.map(([, value]) => value));

const sourceLine = (references: readonly Reference[]): string =>
  references.length === 0
    ? 'gpt2.ts'
    : `reference: ${references
        .map(({ source }) => `${source.program} ${source.version}, ${source.precision}, ${source.hardware}`)
        .join('; ')}`;
