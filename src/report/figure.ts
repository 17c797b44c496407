// Describes a figure of runs and baselines as plain data, and computes the drawn lines: curves, differences, limits.
// make-figure.ts makes a figure; svg.ts, terminal-plot.ts and page/ draw it. The page runs this file too, so nothing here needs
// Node or a DOM.
import type { SeriesName } from '../runs/curves.ts';
import { appliesTo, withinAt } from './compare/compare.ts';
import type { Limit } from './compare/reference.ts';
import { difference, type Points, smooth } from './points.ts';
import type { Table } from './text-table.ts';
import type { Tile } from './tiles.ts';

/** The series that can be plotted: those of comparisons, and a run's throughput. */
export type PlottedSeries = SeriesName | 'tokensPerSecond';

/** A curve's look. In print without colour, dashes and the size of rings distinguish curves. */
export interface Look {
  /** Colours on a light and on a dark background, and the name of a terminal colour. */
  readonly light: string;
  readonly dark: string;
  readonly terminal: string;
  /** Lengths of dashes and gaps; empty for a solid line. */
  readonly dash: readonly number[];
}

export interface Curve extends Look {
  readonly name: string;
  readonly series: Readonly<Partial<Record<PlottedSeries, Points>>>;
  /** The limits for curves that are compared with this one. */
  readonly limits: Readonly<Partial<Record<PlottedSeries, readonly Limit[]>>>;
  /** The series that cannot be compared with the baseline's. */
  readonly leftOut: readonly PlottedSeries[];
}

/** The horizontal axis, from 0. */
export interface Axis {
  readonly label: string;
  /** Unit of the axis's marks; undefined for steps. */
  readonly unit?: string | undefined;
  /** The end of the initial view; the curves may be longer. */
  readonly last: number;
}

export interface Figure {
  readonly title: string;
  readonly axis: Axis;
  /** Baselines, then runs, which are drawn on top. */
  readonly curves: readonly Curve[];
  readonly baselines: number;
  /** Index of the initial baseline of differences; -1 for none. */
  readonly baseline: number;
  readonly tokensPerStep: number | undefined;
  readonly tables: readonly Table[];
  /** The sources of the numbers, one per line. */
  readonly sources: readonly string[];
  /** Set only in a figure of one run. */
  readonly run:
    | {
        readonly end: { readonly state: string; readonly text: string };
        readonly tiles: readonly Tile[];
        readonly samples: readonly { readonly step: number; readonly text: string }[];
        readonly lines: readonly string[];
      }
    | undefined;
}

/** The content of a plot: one series, or the losses of training and validation together. */
export type Shown = PlottedSeries | 'loss';

/** Names and units of the plot's contents, in the order of the page's keys. */
export const seriesLabels: Readonly<Record<Shown, { readonly short: string; readonly long: string }>> = {
  loss: { short: 'Loss', long: 'loss (nats per token)' },
  train: { short: 'Train', long: 'training loss (nats per token)' },
  val: { short: 'Validation', long: 'validation loss (nats per token)' },
  norm: { short: 'Norm', long: 'gradient norm' },
  lr: { short: 'Learning rate', long: 'learning rate' },
  tokensPerSecond: { short: 'Throughput', long: 'throughput (tokens per second)' },
};

export const describeShown = (shown: Shown): string =>
  `${seriesLabels[shown].long}${shown === 'loss' ? ', validation heavier' : ''}`;

export const shownNames = Object.keys(seriesLabels) as Shown[];

export const partsOf = (shown: Shown): readonly PlottedSeries[] => (shown === 'loss' ? ['train', 'val'] : [shown]);

/** The choice of what to plot. */
export interface Choice {
  readonly series: Shown;
  readonly isLog: boolean;
  readonly isDifference: boolean;
  readonly baseline: number;
  readonly smoothing: number;
  readonly hidden: ReadonlySet<number>;
}

/** A drawn curve; `smoothed` covers `points`. */
export interface Line {
  readonly curve: number;
  readonly series: PlottedSeries;
  readonly points: Points;
  readonly smoothed?: Points;
  /** Validation above training: drawn heavier. */
  readonly isHeavy: boolean;
}

const none: Points = { steps: [], values: [] };

/** The lines and bands of a figure, each computed once. */
export class FigureLines {
  readonly #curves: readonly Curve[];
  readonly #cache = new Map<string, Points>();

  constructor({ curves }: Pick<Figure, 'curves'>) {
    this.#curves = curves;
  }

  points(curve: number, series: PlottedSeries): Points {
    return this.#curves[curve]?.series[series] ?? none;
  }

  /** The visible lines, the last on top. */
  lines(choice: Choice): Line[] {
    const { series: shown, isDifference, baseline, hidden } = choice;
    const curves = [...this.#curves.keys()].filter(
      (curve) => !hidden.has(curve) && !(isDifference && curve === baseline),
    );
    return partsOf(shown).flatMap((series) => curves.map((curve) => this.#line(curve, series, choice)));
  }

  #line(curve: number, series: PlottedSeries, choice: Choice): Line {
    const { series: shown, isDifference, isLog, baseline, smoothing } = choice;
    const isHeavy = shown === 'loss' && series === 'val';
    const key = `${series} ${curve} ${isDifference ? baseline : ''} ${isDifference && isLog}`;
    const points = isDifference
      ? this.#once(key, () => this.#apart(curve, series, choice))
      : this.points(curve, series);
    const line = { curve, series, points, isHeavy };
    // The mean of a validation has little noise to smooth.
    if (smoothing === 0 || isHeavy) return line;
    return { ...line, smoothed: this.#once(`${key} ${smoothing}`, () => smooth(points, smoothing)) };
  }

  #apart(curve: number, series: PlottedSeries, { isLog, baseline }: Choice): Points {
    const apart = difference(this.points(curve, series), this.points(baseline, series));
    return isLog ? { steps: apart.steps, values: apart.values.map(Math.abs) } : apart;
  }

  /** The largest allowed difference at each step of the baseline, NaN without a limit; undefined if no limit applies at all. */
  band({ series: shown, isDifference, baseline }: Choice): Points | undefined {
    const series = partsOf(shown)[0]!;
    const limits = this.#curves[baseline]?.limits[series] ?? [];
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

  /** The largest step of all curves; at least 1. */
  get last(): number {
    const ends = this.#curves.flatMap(({ series }) => Object.values(series).map(({ steps }) => steps.at(-1) ?? 0));
    return Math.max(0, ...ends) || 1;
  }

  #once(key: string, make: () => Points): Points {
    const found = this.#cache.get(key);
    if (found) return found;
    const made = make();
    // A slider would leave a cached line for every position.
    if (this.#cache.size > 200) this.#cache.clear();
    this.#cache.set(key, made);
    return made;
  }
}

/** A figure's curves within the initial view, for drawings that cannot be moved. */
export const curvesInView = ({ curves, axis: { last } }: Figure): Curve[] =>
  curves.map((curve) => ({
    ...curve,
    series: Object.fromEntries(
      Object.entries(curve.series).map(([name, { steps, values }]) => {
        const count = steps.filter((step) => step <= last).length;
        return [name, { steps: steps.slice(0, count), values: values.slice(0, count) }];
      }),
    ),
  }));
