// Makes the figure (figure.ts) of runs and baselines: title, axis, curves with their looks, tables, sources.
import { isCompared, shortValue } from '../options/configuration.ts';
import { pairs, seriesNames } from '../runs/curves.ts';
import { lastEvent, unlike } from '../runs/measured.ts';
import type { RunRecord, Series } from '../runs/reader.ts';
import { amountBefore, type Over, type Plotted, unitOf } from './axis.ts';
import { limitsOf } from './compare/compare.ts';
import { type Compared, comparisonTable, ownTable } from './comparison-text.ts';
import type { Axis, Curve, Figure, Look } from './figure.ts';
import { formatCount } from './format-numbers.ts';
import { endOf, LoggedRun } from './logged-run.ts';
import { type Ranking, rankingTable } from './ranking.ts';
import type { Table } from './text-table.ts';
import { measuresOf, tilesOf } from './tiles.ts';

export type PlottedRun = Plotted & Pick<RunRecord, 'configuration' | 'events'>;

// Colours that colour-blind readers can distinguish (Okabe and Ito), and the same hues for a dark background.
const runColors: readonly Omit<Look, 'dash'>[] = [
  { light: '#0072b2', dark: '#5ab4f0', terminal: 'blueBright' },
  { light: '#a6761d', dark: '#e8b93e', terminal: 'red' },
  { light: '#7b3294', dark: '#c08be0', terminal: 'cyan' },
  { light: '#117a65', dark: '#3fcfae', terminal: 'white' },
  { light: '#8c2d4f', dark: '#f07a9b', terminal: 'greenBright' },
  { light: '#1f1f1f', dark: '#f2f2f2', terminal: 'magentaBright' },
  { light: '#5f8f00', dark: '#b4dc2c', terminal: 'yellowBright' },
  { light: '#e0218a', dark: '#ff3fb4', terminal: 'gray' },
  { light: '#0097b8', dark: '#2ee6ff', terminal: 'blue' },
  { light: '#c8202c', dark: '#ff5a4d', terminal: 'redBright' },
  { light: '#3b35c4', dark: '#8b86ff', terminal: 'cyanBright' },
  { light: '#7d8794', dark: '#9aa3ad', terminal: 'whiteBright' },
];
const runDashes: readonly Look['dash'][] = [
  [7, 4],
  [12, 3],
  [3, 3],
  [10, 3, 3, 3],
  [5, 2],
];
const baselineLooks: readonly Look[] = [
  { light: '#d55e00', dark: '#ff8f45', terminal: 'yellow', dash: [] },
  { light: '#009e73', dark: '#37c795', terminal: 'green', dash: [2, 2] },
  { light: '#cc79a7', dark: '#eba3cb', terminal: 'magenta', dash: [9, 3, 2, 3] },
];

function lookOf(index: number, baselines: number): Look {
  if (index < baselines) return baselineLooks[index % baselineLooks.length]!;
  const run = index - baselines;
  // When colours repeat, dashes differ.
  const dash = runDashes[(run + Math.floor(run / runColors.length)) % runDashes.length]!;
  return { ...runColors[run % runColors.length]!, dash: index === 0 ? [] : dash };
}

export interface FigureOptions {
  readonly compared?: readonly Compared[];
  /** If set, the runs are peers: none is the baseline of the others. */
  readonly ranking?: Ranking | undefined;
  /** Replaces the references' limits, as in `compareSeries`. */
  readonly tolerance?: number | undefined;
  readonly over?: Over;
}

/**
 * Over steps, baselines are shown up to the runs' last step; without baselines, the first of several runs becomes one, unless the
 * runs are ranked. Over tokens or seconds every curve is shown whole, without a baseline, because differences and limits are by
 * step.
 */
export function makeFigure(
  runs: readonly PlottedRun[],
  baselines: readonly Plotted[] = [],
  { compared = [], ranking, tolerance, over = 'steps' }: FigureOptions = {},
): Figure {
  const arePeers = ranking !== undefined || over !== 'steps';
  const hasBaseline = !arePeers && runs.length + baselines.length > 1;
  const all = [...baselines, ...runs];
  const { axis, place } = axisOf(runs, all, over);
  const curves = all.map((plotted, index): Curve => {
    // A reference's validations are left out if they cannot be compared with those of a run.
    const isUnlike = !plotted.events && runs.some((run) => unlike(run, plotted).leftOut.includes('val'));
    const { events, series } = plotted;
    const placed = (points: Series) => place(plotted, points);
    return {
      ...lookOf(index, baselines.length),
      name: plotted.name,
      series: {
        ...Object.fromEntries(seriesNames.map((of) => [of, placed(isUnlike && of === 'val' ? [] : series[of])])),
        ...(events && { tokensPerSecond: placed(pairs(new LoggedRun(events).series.tokensPerSecond)) }),
      },
      limits: Object.fromEntries(
        seriesNames.map((of) => [of, limitsOf(of, plotted, tolerance).filter(({ kind }) => kind !== 'mean')]),
      ),
      leftOut: hasBaseline ? unlike(plotted, all[0]!).leftOut : [],
    };
  });
  return {
    title: titleOf(runs, baselines, arePeers),
    axis,
    curves,
    baselines: baselines.length,
    baseline: hasBaseline ? 0 : -1,
    tokensPerStep: tokensPerStep(runs),
    tables: [
      ...(ranking ? [rankingTable(ranking)] : []),
      ...compared.map((one) => comparisonTable(one, tolerance)),
      ...(compared.length > 0 || ranking ? [] : runs.map(ownTable)),
      configurationTable([...runs, ...baselines]),
    ].filter(({ rows }) => rows.length > 0),
    sources: sourceLines(runs, baselines),
    run: all.filter(({ events }) => events).length === 1 ? runFigures(runs[0]!) : undefined,
  };
}

/** The axis, and the function that converts a curve's points, which are by step, to the axis. */
function axisOf(runs: readonly Plotted[], all: readonly Plotted[], over: Over) {
  const before = new Map(all.map((plotted) => [plotted, amountBefore(plotted, over)]));
  const last =
    over === 'steps' ? lastStepOf(runs) : Math.max(0, ...all.map((one) => before.get(one)!(lastStepOf([one]))));
  const [unit, size] = unitOf(over, last);
  const tokens = tokensPerStep(runs);
  const steps = tokens === undefined ? 'step' : `step (${formatCount(tokens)} tokens each)`;
  const axis: Axis = { label: unit ?? steps, unit, last: last / size };
  const place = (plotted: Plotted, points: Series) => ({
    steps: points.map(([step]) => before.get(plotted)!(step) / size),
    values: points.map(([, value]) => value),
  });
  return { axis, place };
}

const lastStepOf = (runs: readonly Plotted[]): number =>
  Math.max(0, ...runs.flatMap(({ series }) => [series.train.at(-1)?.[0] ?? 0, series.val.at(-1)?.[0] ?? 0]));

function tokensPerStep(runs: readonly Plotted[]): number | undefined {
  const [tokens, ...others] = new Set(runs.map(({ configuration }) => configuration?.totalBatch));
  return typeof tokens === 'number' && others.length === 0 ? tokens : undefined;
}

/** "quickstart vs llmc-d6-fp32-b4-t64", "a, b vs c", "9 runs vs c" */
function titleOf(runs: readonly Plotted[], baselines: readonly Plotted[], arePeers: boolean): string {
  const names = (some: readonly Plotted[]) =>
    some.length > 3 ? `${some.length} runs` : some.map(({ name }) => name).join(', ');
  if (baselines.length > 0) return `${names(runs)} vs ${names(baselines)}`;
  return runs.length > 1 && !arePeers ? `${names(runs.slice(1))} vs ${runs[0]!.name}` : names(runs);
}

/** The sources of the numbers, a line for runs and a line for references: programs, precisions, hardware. */
function sourceLines(runs: readonly Plotted[], baselines: readonly Plotted[]): string[] {
  const ours = [...runs, ...baselines].flatMap((one) => {
    const start = lastEvent(one, 'run');
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

/** One column per curve; a field that a reference lacks stays empty. */
function configurationTable(plotted: readonly Plotted[]): Table {
  const configured = plotted.flatMap(({ name, configuration }) => (configuration ? [{ name, configuration }] : []));
  const fields = new Set(configured.flatMap(({ configuration }) => Object.keys(configuration)));
  return {
    title: 'Configuration',
    head: ['', ...configured.map(({ name }) => name)],
    rows: [...fields]
      .filter((field) => isCompared(field))
      .map((field) => [
        field,
        ...configured.map(({ configuration }) => `${shortValue(field, configuration[field]) ?? ''}`),
      ]),
    notes: [],
  };
}

function runFigures({ events, configuration }: PlottedRun): Figure['run'] {
  const run = new LoggedRun(events);
  const start = lastEvent({ events }, 'run');
  const { samples, lines } = run;
  return { end: endOf(run, configuration), tiles: tilesOf(run, start && measuresOf(start)), samples, lines };
}
