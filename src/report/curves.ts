// The curves of a figure, each with the look it has everywhere: in the SVG, in the HTML report, in the terminal. References
// come first, so that runs are drawn over them. What is done to a curve's points is in page/points.js.
import type { Baseline } from '../compare/compare.ts';
import type { Reference } from '../compare/reference.ts';
import type { RunRecord } from '../runs/reader.ts';

/** A run or a reference, as far as it is drawn and described. */
export interface Plotted extends Baseline {
  readonly source?: Reference['source'];
  readonly configuration?: Readonly<Record<string, unknown>>;
  readonly events?: RunRecord['events'];
}

/** A run that has a log. */
export type PlottedRun = Plotted & Pick<RunRecord, 'configuration' | 'events'>;

/** How a curve looks. In print, dashes and the size of rings tell curves apart that have no colour. */
export interface Look {
  readonly light: string;
  readonly dark: string;
  /** Lengths of dashes and gaps; empty: a solid line. */
  readonly dash: readonly number[];
}

/** A curve and how it looks. */
export interface Curve extends Look {
  readonly plotted: Plotted;
  /** What runs are laid over, and drawn beneath them. */
  readonly isBaseline: boolean;
}

// Colours that colour-blind readers can tell apart (Okabe and Ito), and the same hues for a dark ground.
const runLooks: readonly Look[] = [
  { light: '#0072b2', dark: '#5ab4f0', dash: [7, 4] },
  { light: '#a6761d', dark: '#e8b93e', dash: [12, 3] },
  { light: '#7b3294', dark: '#c08be0', dash: [3, 3] },
  { light: '#117a65', dark: '#3fcfae', dash: [10, 3, 3, 3] },
  { light: '#8c2d4f', dark: '#f07a9b', dash: [5, 2] },
];
const baselineLooks: readonly Look[] = [
  { light: '#d55e00', dark: '#ff8f45', dash: [] },
  { light: '#009e73', dark: '#37c795', dash: [2, 2] },
  { light: '#cc79a7', dark: '#eba3cb', dash: [9, 3, 2, 3] },
];

/** What runs are laid over, then the runs. Without any of the former the first run lies beneath, in a solid line. */
export function curvesOf(runs: readonly Plotted[], baselines: readonly Plotted[]): Curve[] {
  const isOverFirst = baselines.length === 0;
  return [
    ...baselines.map((plotted, index) => ({
      ...baselineLooks[index % baselineLooks.length]!,
      plotted,
      isBaseline: true,
    })),
    ...runs.map((plotted, index) => {
      const look = runLooks[index % runLooks.length]!;
      // When the colours begin again, the dashes do not.
      const { dash } = runLooks[(index + Math.floor(index / runLooks.length)) % runLooks.length]!;
      const isBaseline = isOverFirst && index === 0 && runs.length > 1;
      return { ...look, dash: isOverFirst && index === 0 ? [] : dash, plotted, isBaseline };
    }),
  ];
}

/** The last step that any of the runs has: references are shown as far as that. */
export const lastStepOf = (runs: readonly Plotted[]): number =>
  Math.max(0, ...runs.flatMap(({ series }) => [series.train.at(-1)?.[0] ?? 0, series.val.at(-1)?.[0] ?? 0]));

/** "step (4,096 tokens each)" where all runs agree on it. */
export function stepLabel(runs: readonly Plotted[]): string {
  const tokens = tokensPerStep(runs);
  return tokens === undefined ? 'step' : `step (${tokens.toLocaleString('en-US')} tokens each)`;
}

/** Tokens of a step, where all runs have the same. */
export function tokensPerStep(runs: readonly Plotted[]): number | undefined {
  const [tokens, ...others] = new Set(runs.map(({ configuration }) => configuration?.totalBatch));
  return typeof tokens === 'number' && others.length === 0 ? tokens : undefined;
}

/** Where the numbers come from, a line each: programs, precision, hardware. */
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

/** "quickstart over llmc-d6-fp32-b4-t64", "a, b over c", "9 runs over c" */
export function titleOf(runs: readonly Plotted[], baselines: readonly Plotted[]): string {
  const names = (some: readonly Plotted[]) =>
    some.length > 3 ? `${some.length} runs` : some.map(({ name }) => name).join(', ');
  if (baselines.length > 0) return `${names(runs)} over ${names(baselines)}`;
  return runs.length > 1 ? `${names(runs.slice(1))} over ${runs[0]!.name}` : names(runs);
}
