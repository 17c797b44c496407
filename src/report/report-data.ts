// Collects the data of the HTML report. page/ shows it, html-report.ts makes the document.
import { isCompared, shortValue } from '../options/configuration.ts';
import { pairs } from '../runs/curves.ts';
import type { Series } from '../runs/reader.ts';
import type { Plotted } from './axis.ts';
import { limitsOf } from './compare/compare.ts';
import { type SeriesName, seriesNames } from './compare/series-names.ts';
import {
  type Compared,
  comparisonHead,
  comparisonNotes,
  comparisonRows,
  describeOutside,
  describeUnlike,
  ownHead,
  ownRows,
} from './comparison-text.ts';
import { endOf, endOfRun, LoggedRun } from './logged-run.ts';
import type { PackedPoints } from './points.ts';
import { type Ranking, rankingTable } from './ranking.ts';
import { type Placement, type PlottedRun, placeCurves, sourceLines, tokensPerStep } from './shown-curves.ts';
import { measuresOf, tilesOf } from './tiles.ts';

/** The series that can be plotted: those that comparisons use, and a run's throughput. */
export type PlottedSeries = SeriesName | 'tokensPerSecond';

/** A report's whole content; plain JSON. */
export type ReportData = ReturnType<typeof reportData>;
export type ReportTable = ReportData['tables'][number];

export function reportData(
  runs: readonly PlottedRun[],
  baselines: readonly Plotted[] = [],
  {
    compared = [],
    ranking,
    tolerance,
    over,
  }: Pick<Placement, 'over'> & {
    compared?: readonly Compared[];
    ranking?: Ranking;
    tolerance?: number;
  } = {},
) {
  const { title, axis, last, curves } = placeCurves(runs, baselines, { isRanked: ranking !== undefined, over });
  const ofEach = <T>(make: (series: SeriesName) => T) =>
    Object.fromEntries(seriesNames.map((series) => [series, make(series)])) as Record<SeriesName, T>;
  return {
    title,
    axis,
    curves: curves.map(({ plotted, isBaseline, place, ...look }) => ({
      ...look,
      name: plotted.name,
      series: {
        ...ofEach((series) => pack(place(plotted.series[series]))),
        tokensPerSecond: plotted.events && pack(place(pairs(new LoggedRun(plotted.events).series.tokensPerSecond))),
      },
      /** For each series, the limits on a curve that is laid over this one. */
      limits: {
        ...ofEach((series) => limitsOf(series, plotted, tolerance).filter(({ kind }) => kind !== 'mean')),
        tokensPerSecond: [],
      },
    })),
    /** The curve that differences are taken from at first; -1: none. */
    baseline: curves.findIndex(({ isBaseline }) => isBaseline),
    /** Where the view ends at first. */
    last,
    tokensPerStep: tokensPerStep(runs),
    tables: [
      ...(ranking ? [{ ...rankingTable(ranking), outside: '' }] : []),
      ...compared.map((one) => ({
        title: [`${one.run.name} vs ${one.baseline.name}`, ...describeUnlike(one)].join(': '),
        head: comparisonHead,
        rows: comparisonRows(one, tolerance),
        notes: comparisonNotes(one, tolerance),
        /** The violated limits as text; empty if there are none. */
        outside: describeOutside(one.comparison),
      })),
      ...(compared.length > 0 || ranking ? [] : runs).map((run) => ({
        title: run.name,
        head: ownHead,
        rows: ownRows(run),
        notes: [endOfRun(run).text],
        outside: '',
      })),
      configurationTable([...runs, ...baselines]),
    ].filter(({ rows }) => rows.length > 0),
    sources: sourceLines(runs, baselines),
    /** Only in a report of one run. */
    run: [...runs, ...baselines].filter(({ events }) => events).length === 1 ? runFigures(runs[0]!) : undefined,
  };
}

function runFigures({ events, configuration }: PlottedRun) {
  const run = new LoggedRun(events);
  const start = events.findLast((event) => event.event === 'run');
  const { samples, lines } = run;
  return { end: endOf(run, configuration), tiles: tilesOf(run, start && measuresOf(start)), samples, lines };
}

/** One column per curve; a field that a reference lacks is left empty. */
function configurationTable(plotted: readonly Plotted[]) {
  const configured = plotted.filter(({ configuration }) => configuration);
  const fields = new Set(configured.flatMap(({ configuration }) => Object.keys(configuration!)));
  return {
    title: 'Configuration',
    head: ['', ...configured.map(({ name }) => name)],
    rows: [...fields]
      .filter((field) => isCompared(field))
      .map((field) => [
        field,
        ...configured.map(({ configuration }) => `${shortValue(field, configuration![field]) ?? ''}`),
      ]),
    notes: [],
    outside: '',
  };
}

/** Single precision has at most nine digits, and no axis shows more; more would only make the file longer. */
const digits = 9;

const rounded = (value: number): number => Number(value.toPrecision(digits));

function pack(points: Series): PackedPoints {
  const values = points.map(([, value]) => (Number.isFinite(value) ? rounded(value) : `${value}`));
  const steps = points.map(([step]) => rounded(step));
  const [first = 0, second = first + 1] = steps;
  const every = second - first;
  const isEven = steps.every((step, index) => step === first + index * every);
  return isEven ? { first, every, values } : { steps, values };
}
