// Compares a run with a reference or another run, series by series: their differences, and whether these are inside the limits.
// ../../runs and reference.ts read the series, pairs.ts pairs them, comparison-text.ts and the command show the result.
import { checkValue, real } from '../../base/checks/given.ts';
import { type SeriesName, seriesNames } from '../../runs/curves.ts';
import type { RunSeries, Series } from '../../runs/reader.ts';
import type { Limit } from './reference.ts';

/** The other side of a comparison: a reference, or another run, which has no limits. */
export interface Baseline {
  readonly name: string;
  readonly series: RunSeries;
  readonly limits?: readonly Limit[] | undefined;
}

/** The comparison of a run with a reference or another run, in all series but those in `without` of `compareSeries`. */
export interface Comparison {
  readonly series: readonly ReturnType<typeof compareOne>[];
  /** The last common validation. */
  readonly finalValidation: { readonly step: number; readonly run: number; readonly reference: number } | undefined;
  /** A step is in common, and no difference is beyond a limit. Steps without a limit do not count: see `judged`. */
  readonly inside: boolean;
}

type Pair = ReturnType<typeof pairsOf>[number];

/** Learning rates are printed with six decimals: half a unit of the last one. */
const learningRateWithin = 5e-7;

/** The rounding error of subtracting two decimal fractions in binary: 10.8721 - 10.8719 is a little over 0.0002. */
const subtraction = 1e-9;

/**
 * Compares at the common steps. A `tolerance` applies to every step of every series and replaces the reference's limits; for
 * learning rates it is at least half a unit of the last printed digit. Without limits and `tolerance` nothing is judged.
 * @param without series that are left out
 * @throws UsageError for a wrong argument, or a series in `without` that does not exist
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

/** The limits of a series over a baseline: see `compareSeries`. */
export function limitsOf(series: SeriesName, { limits }: Pick<Baseline, 'limits'>, tolerance?: number): Limit[] {
  if (!limits && tolerance === undefined) return [];
  const always = { series, from: 0, to: Number.MAX_SAFE_INTEGER };
  if (series === 'lr') return [{ ...always, within: Math.max(learningRateWithin, tolerance ?? 0) }];
  if (tolerance !== undefined) return [{ ...always, within: tolerance }];
  return (limits ?? []).filter((limit) => limit.series === series);
}

/** The values at the common steps, in the order of the reference. */
export function pairsOf(run: Series, reference: Series) {
  const ours = new Map(run);
  return reference.flatMap(([step, wanted]) => {
    const found = ours.get(step);
    if (found === undefined) return [];
    const difference = Math.abs(found - wanted);
    return { step, run: found, reference: wanted, difference: Number.isNaN(difference) ? Infinity : difference };
  });
}

/** Differences are absolute; a NaN counts as an infinite difference. */
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
    /** The number of common steps to which a limit applies. */
    judged: pairs.filter(({ step }) => limits.some((limit) => appliesTo(limit, step))).length,
    /** The largest difference, and the first step that has it. */
    worst,
    mean: meanOf(pairs),
    /** The first step beyond its limit. */
    beyond,
    /** The first mean over a range of steps that is beyond its limit. */
    meanBeyond: limits
      .filter(({ kind }) => kind === 'mean')
      .map((limit) => ({ limit, mean: meanOf(pairs.filter(({ step }) => appliesTo(limit, step))) }))
      .find(({ limit, mean }) => mean > limit.within + subtraction),
  };
}

export const appliesTo = ({ from, to }: Limit, step: number): boolean => step >= from && step <= to;

/** The difference that a limit allows at this value of the reference. */
export const withinAt = ({ within, relativeAbove }: Limit, reference: number): number =>
  relativeAbove && reference > relativeAbove.above ? reference * relativeAbove.within : within;

const meanOf = (pairs: readonly Pair[]): number =>
  pairs.reduce((sum, { difference }) => sum + difference, 0) / Math.max(1, pairs.length);
