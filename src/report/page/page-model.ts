// Computes what chart.ts draws from a report and the reader's choices, which viewer.ts handles.
import type { Axis } from '../axis.ts';
import { appliesTo, withinAt } from '../compare/compare.ts';
import { difference, type Points, smooth, unpack } from '../points.ts';
import type { PlottedSeries, ReportData } from '../report-data.ts';

export interface Range {
  readonly low: number;
  readonly high: number;
}

/** What the plot shows: one series, or the losses of training and validation together. */
export type Shown = PlottedSeries | 'loss';

export const partsOf = (shown: Shown): readonly PlottedSeries[] => (shown === 'loss' ? ['train', 'val'] : [shown]);

/** Whether a series is validation drawn over training. */
export const isOverTraining = (series: PlottedSeries, shown: Shown): boolean => shown === 'loss' && series === 'val';

export interface State {
  series: Shown;
  isLog: boolean;
  isDifference: boolean;
  baseline: number;
  smoothing: number;
  readonly hidden: Set<number>;
  from: number;
  to: number;
  /** Undefined: fitted to the values. */
  range: Range | undefined;
  cursor: number | undefined;
}

/** A drawn curve; `smoothed` covers `points`. */
export interface Line {
  readonly curve: number;
  readonly points: Points;
  readonly smoothed?: Points;
  /** Validation over training: drawn heavier, with dots where there is room. */
  readonly isHeavy: boolean;
}

/** The curves and settings that chart.ts passes to uPlot. */
export interface Picture {
  /** Ends of the axes and the cursor, which change without a new plot. */
  readonly view: Readonly<Pick<State, 'from' | 'to' | 'range' | 'cursor'>>;
  readonly lines: readonly Line[];
  readonly band: Points | undefined;
  readonly isLog: boolean;
  readonly label: string;
  readonly axis: Axis;
  readonly baseline: number;
  readonly looks: readonly { readonly color: string; readonly dash: readonly number[] }[];
  readonly isDark: boolean;
}

/** Names and units of what can be shown, in the order of the keys that choose it. */
export const seriesLabels: Readonly<Record<Shown, { readonly short: string; readonly long: string }>> = {
  loss: { short: 'Loss', long: 'loss (nats per token), validation heavier' },
  train: { short: 'Train', long: 'training loss (nats per token)' },
  val: { short: 'Validation', long: 'validation loss (nats per token)' },
  norm: { short: 'Norm', long: 'gradient norm' },
  lr: { short: 'Learning rate', long: 'learning rate' },
  tokensPerSecond: { short: 'Throughput', long: 'throughput (tokens per second)' },
};

export const seriesNames = Object.keys(seriesLabels) as Shown[];

/** Lines and bands of a report, each computed once. */
export class Model {
  readonly #data: ReportData;
  readonly #cache = new Map<string, Points>();

  constructor(data: ReportData) {
    this.#data = data;
  }

  points(curve: number, series: PlottedSeries): Points {
    return this.#once(`${series} ${curve}`, () => unpack(this.#data.curves[curve]?.series[series] ?? { values: [] }));
  }

  /** The visible lines, the last on top. */
  lines(state: State): Line[] {
    const { isDifference, baseline, hidden } = state;
    const curves = [...this.#data.curves.keys()].filter(
      (curve) => !hidden.has(curve) && !(isDifference && curve === baseline),
    );
    return partsOf(state.series).flatMap((series) => curves.map((curve) => this.#line(curve, series, state)));
  }

  #line(curve: number, series: PlottedSeries, state: State): Line {
    const { isDifference, isLog, baseline, smoothing } = state;
    const isHeavy = isOverTraining(series, state.series);
    const key = `${series} ${curve} ${isDifference ? baseline : ''} ${isDifference && isLog}`;
    const points = this.#once(key, () => this.#shown(curve, series, state));
    // A validation's mean has little noise to smooth.
    if (smoothing === 0 || isHeavy) return { curve, points, isHeavy };
    return { curve, points, isHeavy, smoothed: this.#once(`${key} ${smoothing}`, () => smooth(points, smoothing)) };
  }

  #shown(curve: number, series: PlottedSeries, { isDifference, isLog, baseline }: State): Points {
    const own = this.points(curve, series);
    if (!isDifference) return own;
    const apart = difference(own, this.points(baseline, series));
    return isLog ? { steps: apart.steps, values: apart.values.map(Math.abs) } : apart;
  }

  /** The largest difference allowed at each step of the baseline, NaN without a limit; undefined if no limit applies at all. */
  band({ series: shown, isDifference, baseline }: State): Points | undefined {
    const series = partsOf(shown)[0]!;
    const limits = this.#data.curves[baseline]?.limits[series] ?? [];
    if (!isDifference || limits.length === 0) return undefined;
    return this.#once(`${series} ${baseline} band`, () => {
      const { steps, values } = this.points(baseline, series);
      const within = values.map((value, index) => {
        const applying = limits.filter((limit) => appliesTo(limit, steps[index]!));
        return applying.length > 0 ? Math.min(...applying.map((limit) => withinAt(limit, value))) : Number.NaN;
      });
      return { steps, values: within };
    });
  }

  /** The end of all curves; 1 if none goes beyond the first step. */
  get last(): number {
    const ends = [...this.#data.curves.keys()].flatMap((curve) =>
      seriesNames.flatMap(partsOf).map((series) => this.points(curve, series).steps.at(-1) ?? 0),
    );
    return Math.max(0, ...ends) || 1;
  }

  #once(key: string, make: () => Points): Points {
    const found = this.#cache.get(key);
    if (found) return found;
    const made = make();
    // A slider leaves one line at every place it passes.
    if (this.#cache.size > 200) this.#cache.clear();
    this.#cache.set(key, made);
    return made;
  }
}
