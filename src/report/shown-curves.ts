// Chooses the curves of a figure and their looks, the same in the SVG, the HTML report and the terminal. Baselines come first, so
// that runs are drawn over them.
import { unlike } from '../runs/measured.ts';
import type { RunRecord, Series } from '../runs/reader.ts';
import type { Plotted } from './axis.ts';
import { type Axis, amountBefore, type Over, unitOf } from './axis.ts';

export type PlottedRun = Plotted & Pick<RunRecord, 'configuration' | 'events'>;

/** A curve's look. In print without colour, dashes and the size of rings tell curves apart. */
export interface Look {
  readonly light: string;
  readonly dark: string;
  /** Lengths of dashes and gaps; empty: a solid line. */
  readonly dash: readonly number[];
}

export interface Curve extends Look {
  readonly plotted: Plotted;
  /** Whether runs are compared with it and drawn over it. */
  readonly isBaseline: boolean;
}

// Colours that colour-blind readers can tell apart (Okabe and Ito), and the same hues for a dark background.
const runColors: readonly Omit<Look, 'dash'>[] = [
  { light: '#0072b2', dark: '#5ab4f0' },
  { light: '#a6761d', dark: '#e8b93e' },
  { light: '#7b3294', dark: '#c08be0' },
  { light: '#117a65', dark: '#3fcfae' },
  { light: '#8c2d4f', dark: '#f07a9b' },
  { light: '#1f1f1f', dark: '#f2f2f2' },
  { light: '#5f8f00', dark: '#b4dc2c' },
  { light: '#e0218a', dark: '#ff3fb4' },
  { light: '#0097b8', dark: '#2ee6ff' },
  { light: '#c8202c', dark: '#ff5a4d' },
  { light: '#3b35c4', dark: '#8b86ff' },
  { light: '#7d8794', dark: '#9aa3ad' },
];
const runDashes: readonly Look['dash'][] = [
  [7, 4],
  [12, 3],
  [3, 3],
  [10, 3, 3, 3],
  [5, 2],
];
const baselineLooks: readonly Look[] = [
  { light: '#d55e00', dark: '#ff8f45', dash: [] },
  { light: '#009e73', dark: '#37c795', dash: [2, 2] },
  { light: '#cc79a7', dark: '#eba3cb', dash: [9, 3, 2, 3] },
];

export interface PlacedCurve extends Curve {
  /** Puts points that are by step on the figure's axis. */
  readonly place: (points: Series) => Series;
}

export interface Placement {
  readonly over?: Over | undefined;
  /** The runs are peers: none is the baseline of the others. */
  readonly isRanked?: boolean;
}

/**
 * The title, curves and axis of a figure, and where the axis ends. Over steps, baselines are shown up to the runs' last one. Over
 * tokens or seconds every curve is shown whole, and none is a baseline: differences and limits are by step.
 */
export function placeCurves(
  runs: readonly Plotted[],
  baselines: readonly Plotted[],
  { over = 'steps', isRanked = false }: Placement,
) {
  const isOverSteps = over === 'steps';
  const arePeers = isRanked || !isOverSteps;
  // A reference is drawn without validations that cannot be compared with those of a run.
  const isUnlike = (one: Plotted) => !one.events && runs.some((run) => unlike(run, one).leftOut.includes('val'));
  const without = baselines.map((one) => (isUnlike(one) ? { ...one, series: { ...one.series, val: [] } } : one));
  const measured = curvesOf(runs, without, arePeers).map((curve) => ({
    ...curve,
    before: amountBefore(curve.plotted, over),
  }));
  const last = isOverSteps
    ? lastStepOf(runs)
    : Math.max(0, ...measured.map(({ plotted, before }) => before(lastStepOf([plotted]))));
  const [size, unit] = unitOf(over, last);
  const axis: Axis = { label: unit ?? stepLabel(tokensPerStep(runs)), unit };
  const curves = measured.map(
    ({ before, ...curve }): PlacedCurve => ({
      ...curve,
      place: (points) => points.map(([step, value]) => [before(step) / size, value]),
    }),
  );
  return { title: titleOf(runs, baselines, arePeers), axis, last: last / size, curves };
}

/** Baselines, then runs. Without baselines the first run has a solid line and is the baseline, unless the runs are peers. */
export function curvesOf(runs: readonly Plotted[], baselines: readonly Plotted[], arePeers = false): Curve[] {
  const isOverFirst = baselines.length === 0;
  return [
    ...baselines.map((plotted, index) => ({
      ...baselineLooks[index % baselineLooks.length]!,
      plotted,
      isBaseline: !arePeers,
    })),
    ...runs.map((plotted, index) => {
      const look = runColors[index % runColors.length]!;
      // When colours repeat, dashes differ.
      const dash = runDashes[(index + Math.floor(index / runColors.length)) % runDashes.length]!;
      const isBaseline = isOverFirst && index === 0 && runs.length > 1 && !arePeers;
      return { ...look, dash: isOverFirst && index === 0 ? [] : dash, plotted, isBaseline };
    }),
  ];
}

/** The last step of all runs. */
const lastStepOf = (runs: readonly Plotted[]): number =>
  Math.max(0, ...runs.flatMap(({ series }) => [series.train.at(-1)?.[0] ?? 0, series.val.at(-1)?.[0] ?? 0]));

/** "step (4,096 tokens each)" */
const stepLabel = (tokens: number | undefined): string =>
  tokens === undefined ? 'step' : `step (${tokens.toLocaleString('en-US')} tokens each)`;

export function tokensPerStep(runs: readonly Plotted[]): number | undefined {
  const [tokens, ...others] = new Set(runs.map(({ configuration }) => configuration?.totalBatch));
  return typeof tokens === 'number' && others.length === 0 ? tokens : undefined;
}

/** The sources of the numbers, one line each: program, precision, hardware. */
export function sourceLines(runs: readonly Plotted[], baselines: readonly Plotted[]): string[] {
  const ours = [...runs, ...baselines].flatMap(({ events }) => {
    const start = events?.findLast((event) => event.event === 'run');
    return start ? [`${start.program}, ${start.dtype}, ${start.device} (${start.codePath})`] : [];
  });
  const theirs = baselines.flatMap(({ source }) =>
    source ? [`${source.program} ${source.version}, ${source.precision}, ${source.hardware}`] : [],
  );
  return [
    [...new Set(ours)].join('; ') || 'gpt2.ts',
    ...(theirs.length > 0 ? [`reference: ${[...new Set(theirs)].join('; ')}`] : []),
  ];
}

/** "quickstart vs llmc-d6-fp32-b4-t64", "a, b vs c", "9 runs vs c" */
function titleOf(runs: readonly Plotted[], baselines: readonly Plotted[], arePeers: boolean): string {
  const names = (some: readonly Plotted[]) =>
    some.length > 3 ? `${some.length} runs` : some.map(({ name }) => name).join(', ');
  if (baselines.length > 0) return `${names(runs)} vs ${names(baselines)}`;
  return runs.length > 1 && !arePeers ? `${names(runs.slice(1))} vs ${runs[0]!.name}` : names(runs);
}
