// Compares two runs, or a run with a reference, in each series: the differences, and whether they are inside the limits. pairs.ts pairs
// the runs, reference.ts reads references, and comparison-text.ts describes the result.
import { checkValue, real } from '../../base/checks/given.ts';
import { type SeriesName, seriesNames } from '../../runs/curves.ts';
import type { RunSeries, Series } from '../../runs/reader.ts';
import type { Limit } from './reference.ts';

/** The other side of a comparison: a reference, which has limits, or another run of ours, which has none. */
export interface Baseline {
  readonly name: string;
  readonly series: RunSeries;
  readonly limits?: readonly Limit[] | undefined;
}

/** The result of a comparison, for every series that is not in the argument `without` of `compareSeries`. */
export interface Comparison {
  readonly series: readonly ReturnType<typeof compareOne>[];
  /** The losses at the last step at which both runs were validated; undefined if there is no such step. */
  readonly finalValidation: { readonly step: number; readonly run: number; readonly reference: number } | undefined;
  /** Whether the runs have a common step and no limit is violated. Steps without a limit are not judged: see `judged`. */
  readonly inside: boolean;
}

type Pair = ReturnType<typeof pairsOf>[number];

/** Allowed difference of learning rates: half a unit of the last decimal, because references list six decimals. */
const learningRateWithin = 5e-7;

/** Added to each limit, because decimal fractions are rounded to binary: 10.8721 - 10.8719 is a little more than 0.0002. */
const subtraction = 1e-9;

/**
 * Compares a run with a baseline at their common steps. A `tolerance` replaces the baseline's limits, at every step of every series.
 * Learning rates may always differ by half a unit of the last recorded digit. Without tolerance and limits nothing is judged.
 * @param without names of series that are not compared
 * @throws UsageError for a wrong argument, or a name in `without` that is not a series
 * @example const { inside } = compareSeries(readRun('runs/first').series, readReference('llmc-d6-fp32-b4-t64'), 0.01);
 */
export function compareSeries(
  run: RunSeries,
  reference: Baseline,
  tolerance?: number,
  without: string[] = [],
): Comparison {
  if (tolerance !== undefined) checkValue('tolerance', real(0), tolerance);
  checkValue('without', 'texts', without);
  for (const name of without) checkValue('without', seriesNames, name);
  checkValue('run', { member: 'train', what: 'the series of a run, such as readRun().series' }, run);
  checkValue(
    'reference',
    { member: 'series', what: 'what readReference() returns, or a run with its name' },
    reference,
  );
  const series = seriesNames
    .filter((name) => !without.includes(name))
    .map((name) => compareOne(name, pairsOf(run[name], reference.series[name]), limitsOf(name, reference, tolerance)));
  const final = without.includes('val') ? undefined : pairsOf(run.val, reference.series.val).at(-1);
  return {
    series,
    finalValidation: final && { step: final.step, run: final.run, reference: final.reference },
    inside: series.some(({ steps }) => steps > 0) && series.every(({ beyond, meanBeyond }) => !beyond && !meanBeyond),
  };
}

/** Limits for a series: the baseline's limits or, with a tolerance, one limit for all steps. Learning rates always have one limit. */
export function limitsOf(series: SeriesName, { limits }: Pick<Baseline, 'limits'>, tolerance?: number): Limit[] {
  if (!limits && tolerance === undefined) return [];
  const always = { series, from: 0, to: Number.MAX_SAFE_INTEGER };
  if (series === 'lr') return [{ ...always, within: Math.max(learningRateWithin, tolerance ?? 0) }];
  if (tolerance !== undefined) return [{ ...always, within: tolerance }];
  return (limits ?? []).filter((limit) => limit.series === series);
}

/** The values of both series at their common steps, in the reference's order. If a value is NaN, the difference is infinite. */
export function pairsOf(run: Series, reference: Series) {
  const ours = new Map(run);
  return reference.flatMap(([step, wanted]) => {
    const found = ours.get(step);
    if (found === undefined) return [];
    const difference = Math.abs(found - wanted);
    return { step, run: found, reference: wanted, difference: Number.isNaN(difference) ? Infinity : difference };
  });
}

/** Compares one series. Differences are absolute values. */
function compareOne(series: SeriesName, pairs: readonly Pair[], limits: readonly Limit[]) {
  let worst: { readonly step: number; readonly difference: number } | undefined;
  let beyond: { readonly step: number; readonly difference: number; readonly within: number } | undefined;
  for (const { step, reference, difference } of pairs) {
    if (!worst || difference > worst.difference) worst = { step, difference };
    for (const limit of limits) {
      if (limit.kind === 'mean' || !appliesTo(limit, step)) continue;
      const within = withinAt(limit, reference);
      if (difference > within + subtraction) beyond ??= { step, difference, within };
    }
  }
  return {
    series,
    steps: pairs.length,
    /** Number of common steps to which a limit applies. */
    judged: pairs.filter(({ step }) => limits.some((limit) => appliesTo(limit, step))).length,
    /** The largest difference, and the first step that has it. */
    worst,
    mean: meanOf(pairs),
    /** The first step whose difference is over its limit. */
    beyond,
    /** The first violated limit of kind 'mean', and the mean difference over the limit's steps. */
    meanBeyond: limits
      .filter(({ kind }) => kind === 'mean')
      .map((limit) => ({ limit, mean: meanOf(pairs.filter(({ step }) => appliesTo(limit, step))) }))
      .find(({ limit, mean }) => mean > limit.within + subtraction),
  };
}

export const appliesTo = ({ from, to }: Limit, step: number): boolean => step >= from && step <= to;

/** The allowed difference at a step at which the reference has the value `reference`. */
export const withinAt = ({ within, relativeAbove }: Limit, reference: number): number =>
  relativeAbove && reference > relativeAbove.above ? reference * relativeAbove.within : within;

const meanOf = (pairs: readonly Pair[]): number =>
  pairs.reduce((sum, { difference }) => sum + difference, 0) / Math.max(1, pairs.length);
