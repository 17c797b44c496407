// Lays a run over a reference, series by series: how far apart they are, and whether that is inside the limits.
import type { RunSeries, Series } from '../runs/reader.ts';
import { type Limit, type Reference, type SeriesName, seriesNames } from './reference.ts';

export interface SeriesComparison {
  readonly series: SeriesName;
  /** Steps that both have. */
  readonly steps: number;
  readonly worst: { readonly step: number; readonly difference: number } | undefined;
  readonly mean: number;
  /** The first step beyond a limit. */
  readonly beyond: { readonly step: number; readonly difference: number; readonly within: number } | undefined;
  /** A mean over a range of steps that is beyond its limit. */
  readonly meanBeyond: { readonly limit: Limit; readonly mean: number } | undefined;
}

export interface Comparison {
  readonly series: readonly SeriesComparison[];
  readonly inside: boolean;
}

/** Learning rates were printed with six decimals: half a unit of the last. */
const learningRateWithin = 5e-7 + 1e-9;

/**
 * Compares over the steps that both have. With `tolerance` it holds for every step of losses and norms, in place of the
 * reference's limits.
 */
export function compareSeries(run: RunSeries, reference: Reference, tolerance?: number): Comparison {
  const series = seriesNames.map((name) => {
    const limits = limitsOf(name, reference, tolerance);
    return compareOne(name, run[name], reference.series[name], limits);
  });
  return { series, inside: series.every(({ beyond, meanBeyond }) => !beyond && !meanBeyond) };
}

function limitsOf(series: SeriesName, { limits }: Reference, tolerance: number | undefined): Limit[] {
  const always = { series, from: 0, to: Number.MAX_SAFE_INTEGER };
  if (series === 'lr') return [{ ...always, within: learningRateWithin }];
  if (tolerance !== undefined) return [{ ...always, within: tolerance }];
  return limits.filter((limit) => limit.series === series);
}

function compareOne(series: SeriesName, run: Series, reference: Series, limits: readonly Limit[]): SeriesComparison {
  const ours = new Map(run);
  const pairs = reference.flatMap(([step, wanted]) => {
    const found = ours.get(step);
    if (found === undefined) return [];
    // A NaN is further off than anything.
    const gap = Math.abs(found - wanted);
    return [{ step, wanted, difference: Number.isNaN(gap) ? Number.POSITIVE_INFINITY : gap }];
  });
  let worst: SeriesComparison['worst'];
  let beyond: SeriesComparison['beyond'];
  for (const { step, wanted, difference } of pairs) {
    if (!worst || difference > worst.difference) worst = { step, difference };
    for (const limit of limits) {
      if (limit.mean || step < limit.from || step > limit.to) continue;
      const within = limit.relative && wanted > limit.relative.above ? wanted * limit.relative.within : limit.within;
      if (difference > within) beyond ??= { step, difference, within };
    }
  }
  const meanOf = (from: number, to: number): number => {
    const chosen = pairs.filter(({ step }) => step >= from && step <= to);
    return chosen.reduce((sum, { difference }) => sum + difference, 0) / Math.max(1, chosen.length);
  };
  const overMean = limits.filter(({ mean }) => mean).map((limit) => ({ limit, mean: meanOf(limit.from, limit.to) }));
  return {
    series,
    steps: pairs.length,
    worst,
    mean: meanOf(0, Number.MAX_SAFE_INTEGER),
    beyond,
    meanBeyond: overMean.find(({ limit, mean }) => mean > limit.within),
  };
}
