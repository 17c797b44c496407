// Lays a run over a reference or another run, series by series: how far apart they are, and whether that is inside the
// limits. Pure: reading the two is left to ../runs and reference.ts, which is laid over which to pairs.ts, showing the
// result to ../report and the command.
import type { RunSeries, Series } from '../runs/reader.ts';
import { type Limit, type SeriesName, seriesNames } from './reference.ts';

/** What a run is laid over: a reference, or another run, which has no limits. */
export interface Baseline {
  readonly name: string;
  readonly series: RunSeries;
  readonly limits?: readonly Limit[];
}

/** One series of a run beside the reference's. Differences are absolute; a NaN counts as infinitely far. */
export interface SeriesComparison {
  readonly series: SeriesName;
  /** Steps that both have. */
  readonly steps: number;
  /** Of these, the steps that some limit speaks of. */
  readonly judged: number;
  /** The largest difference, and the first step that has it. */
  readonly worst: { readonly step: number; readonly difference: number } | undefined;
  /** Mean difference over all steps that both have. */
  readonly mean: number;
  /** The first step beyond its limit. */
  readonly beyond: { readonly step: number; readonly difference: number; readonly within: number } | undefined;
  /** The first mean over a range of steps that is beyond its limit. */
  readonly meanBeyond: { readonly limit: Limit; readonly mean: number } | undefined;
}

/** A run beside a reference or another run. */
export interface Comparison {
  readonly series: readonly SeriesComparison[];
  /** The last validation that both have. */
  readonly finalValidation: { readonly step: number; readonly run: number; readonly reference: number } | undefined;
  /** Nothing is beyond a limit. Says nothing about steps that no limit speaks of: see `judged`. */
  readonly inside: boolean;
}

interface Pair {
  readonly step: number;
  readonly run: number;
  readonly reference: number;
  readonly difference: number;
}

/** Learning rates are printed with six decimals: half a unit of the last. */
const learningRateWithin = 5e-7;

/** What subtracting two decimal fractions in binary may add: 10.8721 - 10.8719 is a little over 0.0002. */
const subtraction = 1e-9;

/**
 * Compares over the steps that both have. With `tolerance` it holds for every step of every series, in place of the
 * reference's limits; the learning rate's is never below what its printed digits can tell. Over another run, and without
 * `tolerance`, nothing is judged.
 * @example const { inside } = compareSeries(readRun('runs/first').series, readReference('llmc-d6-fp32-b4-t64'), 0.01);
 */
export function compareSeries(run: RunSeries, reference: Baseline, tolerance?: number): Comparison {
  const series = seriesNames.map((name) =>
    compareOne(name, pairsOf(run[name], reference.series[name]), limitsOf(name, reference, tolerance)),
  );
  const final = pairsOf(run.val, reference.series.val).at(-1);
  return {
    series,
    finalValidation: final && { step: final.step, run: final.run, reference: final.reference },
    inside: series.every(({ beyond, meanBeyond }) => !beyond && !meanBeyond),
  };
}

/** What a series is held to over a baseline: see `compareSeries`. */
export function limitsOf(series: SeriesName, { limits }: Pick<Baseline, 'limits'>, tolerance?: number): Limit[] {
  if (!limits && tolerance === undefined) return [];
  const always = { series, from: 0, to: Number.MAX_SAFE_INTEGER };
  if (series === 'lr') return [{ ...always, within: Math.max(learningRateWithin, tolerance ?? 0) }];
  if (tolerance !== undefined) return [{ ...always, within: tolerance }];
  return (limits ?? []).filter((limit) => limit.series === series);
}

function pairsOf(run: Series, reference: Series): Pair[] {
  const ours = new Map(run);
  return reference.flatMap(([step, wanted]) => {
    const found = ours.get(step);
    if (found === undefined) return [];
    const gap = Math.abs(found - wanted);
    return [{ step, run: found, reference: wanted, difference: Number.isNaN(gap) ? Number.POSITIVE_INFINITY : gap }];
  });
}

function compareOne(series: SeriesName, pairs: readonly Pair[], limits: readonly Limit[]): SeriesComparison {
  let worst: SeriesComparison['worst'];
  let beyond: SeriesComparison['beyond'];
  for (const { step, reference, difference } of pairs) {
    if (!worst || difference > worst.difference) worst = { step, difference };
    for (const limit of limits) {
      if (limit.kind === 'mean' || !speaksOf(limit, step)) continue;
      const within = withinAt(limit, reference);
      if (difference > within + subtraction) beyond ??= { step, difference, within };
    }
  }
  return {
    series,
    steps: pairs.length,
    judged: pairs.filter(({ step }) => limits.some((limit) => speaksOf(limit, step))).length,
    worst,
    mean: meanOf(pairs),
    beyond,
    meanBeyond: limits
      .filter(({ kind }) => kind === 'mean')
      .map((limit) => ({ limit, mean: meanOf(pairs.filter(({ step }) => speaksOf(limit, step))) }))
      .find(({ limit, mean }) => mean > limit.within + subtraction),
  };
}

const speaksOf = ({ from, to }: Limit, step: number): boolean => step >= from && step <= to;

/** The difference that a limit allows where the reference has this value. */
export const withinAt = ({ within, relativeAbove }: Limit, reference: number): number =>
  relativeAbove && reference > relativeAbove.above ? reference * relativeAbove.within : within;

const meanOf = (pairs: readonly Pair[]): number =>
  pairs.reduce((sum, { difference }) => sum + difference, 0) / Math.max(1, pairs.length);
