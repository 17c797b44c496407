// Makes a figure (figure.ts: a plot as data) of runs and baselines: title, axis, curves with their looks, tables, sources.
import { customModel, modelLabel } from '../model/config.ts';
import { unlikeDefaults } from '../options/complete-options.ts';
import { commandOf, isCompared, shortValue } from '../options/configuration.ts';
import { pairs, seriesNames } from '../runs/curves.ts';
import type { RunRecord, Series } from '../runs/reader.ts';
import { amountBefore, type Over, type Plotted, unitOf } from './axis.ts';
import { limitsOf } from './compare/compare.ts';
import type { Limit } from './compare/reference.ts';
import { type Compared, comparisonTable, earlierOptions, ownTable } from './comparison-text.ts';
import { type Axis, type Curve, type Figure, firstShown, type Look } from './figure.ts';
import { formatCount, type Table } from './format-text.ts';
import { endOf, LoggedRun } from './logged-run.ts';
import { lastEvent, unlike } from './measured.ts';
import { type Ranking, rankingTable } from './ranking.ts';
import { measuresOf, seenOf, tilesOf } from './tiles.ts';

export type PlottedRun = Plotted & Pick<RunRecord, 'configuration' | 'events' | 'saved'>;

// Training colours (Okabe-Ito and others) have a contrast of 3:1 or more with the background, validation colours 4.5:1 or more. The
// colours of all runs and the first reference are at least 0.09 apart in OKLab. A random search found the validation colours.
const look = (...[light, val, dark, darkVal, terminal]: [string, string, string, string, string]) => ({
  ...{ light: { train: light, val }, dark: { train: dark, val: darkVal }, terminal },
});
const runLooks: readonly Omit<Look, 'dash'>[] = [
  look('#0072b2', '#b112a3', '#5ab4f0', '#fe8cfa', 'blueBright'),
  look('#a6761d', '#394418', '#e8b93e', '#3f9502', 'red'),
  look('#7b3294', '#08036f', '#c08be0', '#e607f7', 'cyan'),
  look('#117a65', '#010d01', '#3fcfae', '#02fd11', 'white'),
  look('#8c2d4f', '#b520f8', '#f07a9b', '#b058cd', 'greenBright'),
  look('#1f1f1f', '#725ee4', '#f2f2f2', '#aa751a', 'magentaBright'),
  look('#5f8f00', '#705402', '#b4dc2c', '#678777', 'yellowBright'),
  look('#e0218a', '#4e0e5d', '#ff3fb4', '#9274a2', 'gray'),
  look('#0097b8', '#024b7a', '#2ee6ff', '#0283d2', 'blue'),
  look('#c8202c', '#5e171a', '#ff5a4d', '#f9cbab', 'redBright'),
  look('#3b35c4', '#985da0', '#8b86ff', '#cacfff', 'cyanBright'),
  look('#7d8794', '#6d03fb', '#9aa3ad', '#96fec4', 'whiteBright'),
];
const runDashes: readonly Look['dash'][] = [
  [7, 4],
  [12, 3],
  [3, 3],
  [10, 3, 3, 3],
  [5, 2],
];
const baselineLooks: readonly Look[] = [
  { ...look('#d55e00', '#1b6601', '#ff8f45', '#1dc800', 'yellow'), dash: [] },
  { ...look('#009e73', '#086500', '#37c795', '#e9fe0d', 'green'), dash: [2, 2] },
  { ...look('#cc79a7', '#b011ae', '#eba3cb', '#c35e6f', 'magenta'), dash: [9, 3, 2, 3] },
];

function lookOf(index: number, baselines: number): Look {
  if (index < baselines) return baselineLooks[index % baselineLooks.length]!;
  const run = index - baselines;
  // When the colours repeat, the cycle of dashes shifts by one: runs of equal colour have different dashes.
  const dash = runDashes[(run + Math.floor(run / runLooks.length)) % runDashes.length]!;
  return { ...runLooks[run % runLooks.length]!, dash: index === 0 ? [] : dash };
}

export interface FigureOptions {
  readonly compared?: readonly Compared[];
  /** If set, the runs are ranked, and none of them is the baseline of the others. */
  readonly ranking?: Ranking | undefined;
  /** Largest allowed difference, in place of the references' limits: see `compareSeries`. */
  readonly tolerance?: number | undefined;
  readonly over?: Over;
}

/**
 * Makes the figure. Over steps the axis ends at the runs' last step; without baselines the first of several runs becomes the baseline,
 * unless the runs are ranked. Over tokens or seconds curves are not cut, and none is a baseline: differences and limits are by step.
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
    // Leave out a reference's validation loss if a run's validation loss cannot be compared with it.
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
      limits: Object.fromEntries(seriesNames.map((of) => [of, limitsOf(of, plotted, tolerance).filter(isOfSteps)])),
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
      configurationTable(runs, baselines),
    ].filter(({ rows }) => rows.length > 0),
    sources: sourceLines(runs, baselines),
    ...(all.filter(({ events }) => events).length === 1 ? runFigures(runs[0]!) : { facts: [], run: undefined }),
  };
}

/** Whether a limit applies to each step, so that it can be drawn. A limit of a mean cannot be drawn. */
const isOfSteps = ({ kind }: Limit): boolean => kind !== 'mean';

/** The axis, and a function that moves a curve's points from their steps to positions on the axis. */
function axisOf(runs: readonly Plotted[], all: readonly Plotted[], over: Over) {
  const before = new Map(all.map((plotted) => [plotted, amountBefore(plotted, over)]));
  const ends = (over === 'steps' ? runs : all).map((one) => ({ placeOf: before.get(one)!, step: lastStepOf(one) }));
  const last = Math.max(0, ...ends.map(({ placeOf, step }) => placeOf(step)));
  const first =
    over === 'steps' ? firstShown(last) : Math.min(...ends.map(({ placeOf, step }) => placeOf(firstShown(step))));
  const [unit, size] = unitOf(over, last);
  const tokens = tokensPerStep(runs);
  const steps = tokens === undefined ? 'step' : `step (${formatCount(tokens)} tokens each)`;
  const axis: Axis = { label: unit ?? steps, unit, first: first / size, last: last / size };
  const place = (plotted: Plotted, points: Series) => ({
    steps: points.map(([step]) => before.get(plotted)!(step) / size),
    values: points.map(([, value]) => value),
  });
  return { axis, place };
}

const lastStepOf = ({ series: { train, val } }: Plotted): number =>
  Math.max(train.at(-1)?.[0] ?? 0, val.at(-1)?.[0] ?? 0);

/** Tokens in a step; undefined if the runs have different numbers, or if a resumed run changed its batch. */
function tokensPerStep(runs: readonly Plotted[]): number | undefined {
  const all = runs.flatMap((run) => [run.configuration?.totalBatch, ...new LoggedRun(run.events).series.tokens.values]);
  const [tokens, ...others] = new Set(all);
  return typeof tokens === 'number' && others.length === 0 ? tokens : undefined;
}

/** The title: "quickstart vs llmc-d6-fp32-b4-t64", "a, b vs c", "9 runs vs c". */
function titleOf(runs: readonly Plotted[], baselines: readonly Plotted[], arePeers: boolean): string {
  const names = (some: readonly Plotted[]) =>
    some.length > 3 ? `${some.length} runs` : some.map(({ name }) => name).join(', ');
  if (baselines.length > 0) return `${names(runs)} vs ${names(baselines)}`;
  return runs.length > 1 && !arePeers ? `${names(runs.slice(1))} vs ${runs[0]!.name}` : names(runs);
}

/** Program, precision and hardware of the numbers: a line for our runs and a line for references. */
function sourceLines(runs: readonly Plotted[], baselines: readonly Plotted[]): string[] {
  const ours = [...runs, ...baselines].flatMap((one) => {
    const start = lastEvent(one, 'run');
    return start ? [`${start.program}, ${start.dtype}, ${start.device} (${start.codePath})`] : [];
  });
  const theirs = baselines.flatMap(({ source }) =>
    source ? [`${source.program} ${source.version}, ${source.precision}, ${source.hardware}`] : [],
  );
  const [programs, references] = [ours, theirs].map((all) => [...new Set(all)].join('; '));
  return [programs || 'gpt2.ts', ...(references ? [`reference: ${references}`] : [])];
}

/** The options that differ between curves or from their defaults. A column per curve; a cell is empty if a reference lacks the option. */
function configurationTable(runs: readonly PlottedRun[], baselines: readonly Plotted[]): Table {
  const columns = [...runs, ...baselines].filter(({ configuration }) => configuration);
  const fields = new Set(columns.flatMap(({ configuration }) => Object.keys(configuration!)));
  const set = new Set(runs.flatMap(({ configuration }) => Object.keys(unlikeDefaults(configuration))));
  const rows = [...fields]
    .filter((field) => isCompared(field))
    .map((field) => [field, ...columns.map((one) => `${shortValue(field, one.configuration![field]) ?? ''}`)]);
  const shown = rows.filter(([field, ...values]) => set.has(field!) || new Set(values.filter(Boolean)).size > 1);
  const others = rows.length - shown.length;
  return {
    title: 'Configuration',
    head: ['', ...columns.map(({ name }) => name)],
    rows: shown,
    notes: others > 0 ? [`${others} more options have their defaults; config.json lists them`] : [],
    // Show the command that repeats the run. No single command repeats a run that was resumed with other options.
    ...(runs.length === 1 && earlierOptions(runs[0]!).length === 0 && { command: commandOf(runs[0]!.configuration) }),
  };
}

function runFigures({ events, configuration, saved }: PlottedRun): Pick<Figure, 'facts' | 'run'> {
  const run = new LoggedRun(events);
  const start = lastEvent({ events }, 'run');
  const { samples, lines } = run;
  const about = start && measuresOf(start);
  const { model, data } = configuration;
  const facts = start && [
    ...[model === customModel ? modelLabel(configuration) : model, `${formatCount(start.parameters)} parameters`],
    ...[`${shortValue('data', data)}`, `${start.device} (${start.codePath})`, start.dtype],
  ];
  const [seen, end] = [seenOf(run, about?.epoch), endOf(run, configuration, saved)];
  return { facts: facts ?? [], run: { seen, end, tiles: tilesOf(run, about), samples, lines } };
}
