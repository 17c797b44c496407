// `compare`: pairs runs with references or with each other, or ranks them; makes the plot, the result as text or JSON, and the verdict.
import { gpt2Error, usageError } from '../base/errors.ts';
import { describeMismatches, mismatches } from '../options/configuration.ts';
import type { Over } from './axis.ts';
import { compareSeries } from './compare/compare.ts';
import { type NamedRun, type Pair, pairRuns } from './compare/pairs.ts';
import { nearestReference, presetOf } from './compare/reference.ts';
import {
  type Compared,
  describeComparison,
  describeOutside,
  describeUnlike,
  ownFigures,
  ownTable,
} from './comparison-text.ts';
import { describeTable } from './format-text.ts';
import { endOfRun } from './logged-run.ts';
import { makeFigure } from './make-figure.ts';
import { bitsPerByte, unlike } from './measured.ts';
import { describeRanking, rankRuns } from './ranking.ts';

interface CompareOptions {
  /** The baselines: names or files of references, or run folders. Default: see `pairRuns`. */
  readonly reference?: readonly string[];
  /** Largest allowed difference, in place of the references' limits: see `compareSeries`. */
  readonly tolerance?: number;
  readonly over: Over;
}

/**
 * Compares runs with baselines. Without a baseline and a tolerance, more than two runs are ranked instead.
 * @throws UsageError for a tolerance without a baseline; Gpt2Error as `pairRuns`, and for curves that cannot be compared
 */
export function compareRuns(folders: readonly string[], { reference, tolerance, over }: CompareOptions) {
  const { runs, baselines, pairs } = pairRuns(folders, reference);
  if (tolerance !== undefined && pairs.length === 0) {
    throw usageError`--tolerance needs something to compare ${folders[0]} with: no reference has its configuration; name one with --reference, or a second run`;
  }
  const isRanked = runs.length > 2 && baselines.length === 0 && tolerance === undefined;
  const ranking = isRanked ? rankRuns(runs) : undefined;
  const compared = isRanked ? [] : pairs.map((pair) => comparedPair(pair, tolerance));
  const [first, second] = compared;
  return {
    figure: makeFigure(runs, baselines, { compared, ranking, tolerance, over }),
    describe(): string {
      if (ranking) return describeRanking(ranking);
      if (!first) return describeAlone(runs[0]!);
      return compared.map((one) => describeComparison(one, tolerance)).join('\n\n');
    },
    /** The result as JSON: for one comparison its fields, for several a list `comparisons`, for a ranking a list `ranking`. */
    resultWith(files: Readonly<Record<'plot' | 'report', string>>): object {
      if (ranking) return { ...files, ...ranking };
      if (!first) return { ...ofRun(runs[0]!), reference: null, ...files, series: ownFigures(runs[0]!) };
      return second ? { ...files, comparisons: compared.map(ofPair) } : { ...ofPair(first), ...files };
    },
    /** The violated limits in words: baseline, series, step, difference and limit; '' if no limit is violated. */
    outside: compared
      .filter(({ comparison }) => !comparison.inside)
      .map(({ run, baseline, comparison }) => {
        const name = second ? `${baseline.name} is ${run.folder}` : baseline.name;
        return `${name}: ${describeOutside(comparison)}`;
      })
      .join('; of '),
  };
}

function comparedPair(pair: Pair, tolerance: number | undefined): Compared {
  const { run, baseline } = pair;
  const [unlikeText] = describeUnlike(pair);
  if (unlikeText && tolerance !== undefined) throw gpt2Error`${unlikeText}; leave out --tolerance`;
  const comparison = compareSeries(run.series, baseline, tolerance, unlike(run, baseline).leftOut);
  if (comparison.series.some(({ steps }) => steps > 0)) return { ...pair, comparison };
  throw gpt2Error`${run.folder} has no step in common with ${baseline.name} yet: train it further`;
}

const ofRun = (run: NamedRun) => ({ run: run.folder, end: endOfRun(run), bitsPerByte: bitsPerByte(run) });

const ofPair = (compared: Compared) => ({
  ...{ ...ofRun(compared.run), reference: compared.baseline.name, unlike: describeUnlike(compared) },
  ...compared.comparison,
});

function describeAlone(run: NamedRun): string {
  const nearest = nearestReference(run.configuration);
  const differing = nearest && describeMismatches(mismatches(run.configuration, nearest));
  const table = ownTable(run);
  return describeTable({
    ...table,
    title: "no reference has this run's configuration; its own figures:",
    notes: [...table.notes, ...(nearest ? [`nearest: ${nearest.name}${presetOf(nearest)}, but ${differing}`] : [])],
  });
}
