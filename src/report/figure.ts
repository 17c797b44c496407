// Describes a figure of runs and baselines as plain data, and computes the drawn lines: curves, differences, limits.
// make-figure.ts makes a figure; svg.ts, terminal-plot.ts and page/ draw it. The page runs this file too, so nothing here needs
// Node or a DOM.
import type { SeriesName } from '../runs/curves.ts';
import { appliesTo, withinAt } from './compare/compare.ts';
import type { Limit } from './compare/reference.ts';
import { difference, type Points, smooth } from './points.ts';
import type { Table } from './text-table.ts';
import type { Tile } from './tiles.ts';

/** The series that can be plotted: the compared series, and a run's throughput. */
export type PlottedSeries = SeriesName | 'tokensPerSecond';

/** The two colours of a run: of its validation, and of everything else. */
type Part = 'train' | 'val';
export const partOf = (series: PlottedSeries): Part => (series === 'val' ? 'val' : 'train');

/** A curve's look. In print without colour, dashes and the size of rings distinguish curves. */
export interface Look {
  /** Colours on a light and on a dark background, and the name of a terminal colour. */
  readonly light: Readonly<Record<Part, string>>;
  readonly dark: Readonly<Record<Part, string>>;
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

export interface Axis {
  readonly label: string;
  /** Unit of the axis's marks; undefined for steps. */
  readonly unit?: string | undefined;
  /** The initial view: without the first percent of the steps, whose losses dwarf all others, up to the end of the runs. */
  readonly first: number;
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
  /** Model, parameters, data, device and dtype of a single run. */
  readonly facts: readonly string[];
  /** Set only in a figure of one run. */
  readonly run:
    | {
        /** Tokens, epochs and time. */
        readonly seen: readonly string[];
        readonly end: { readonly state: string; readonly text: string };
        readonly tiles: readonly Tile[];
        readonly samples: readonly { readonly step: number; readonly text: string }[];
        readonly lines: readonly string[];
      }
    | undefined;
}

/** The first step of the initial view. */
export const firstShown = (lastStep: number): number => Math.floor(lastStep / 100);

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

export const shownNames = Object.keys(seriesLabels) as Shown[];

export const partsOf = (shown: Shown): readonly PlottedSeries[] => (shown === 'loss' ? ['train', 'val'] : [shown]);

export interface Choice {
  readonly series: Shown;
  readonly isLog: boolean;
  readonly isDifference: boolean;
  readonly baseline: number;
  readonly smoothing: number;
  /** Keys of hidden legend entries. */
  readonly hidden: ReadonlySet<string>;
}

export const plainChoice = { isLog: false, isDifference: false, baseline: -1, smoothing: 0, hidden: new Set<string>() };

/** A drawn curve; `smoothed` covers `points`. */
export interface Line {
  readonly curve: number;
  readonly series: PlottedSeries;
  readonly points: Points;
  readonly smoothed?: Points;
}

export const keyOf = (curve: number, part: Part): string => `${part} ${curve}`;

/** "mine", or "mine, validation" where training is drawn, too; of a single curve "training" and "validation". */
export function labelOf({ curves }: Pick<Figure, 'curves'>, curve: number, part: Part): string {
  const what = part === 'val' ? 'validation' : 'training';
  const { name } = curves[curve]!;
  return curves.length === 1 ? what : part === 'val' ? `${name}, ${what}` : name;
}

/**
 * The entries of a plot's legend, which hide and show the lines of one part of a curve: runs, then baselines; training and
 * validation of a curve one after the other.
 */
export const legendOf = (figure: Pick<Figure, 'curves' | 'baselines'>, shown: Shown) => {
  const entries = figure.curves.flatMap(({ series }, curve) =>
    [...new Set(partsOf(shown).map(partOf))]
      .filter((part) => part === 'train' || series.val?.steps.length)
      .map((part) => ({ key: keyOf(curve, part), curve, part, label: labelOf(figure, curve, part) })),
  );
  // The figure is about the runs.
  return [true, false].flatMap((isRun) => entries.filter(({ curve }) => curve >= figure.baselines === isRun));
};

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
    const curves = [...this.#curves.keys()].filter((curve) => !(isDifference && curve === baseline));
    return partsOf(shown).flatMap((series) =>
      curves
        .filter((curve) => !hidden.has(keyOf(curve, partOf(series))))
        .map((curve) => this.#line(curve, series, choice)),
    );
  }

  #line(curve: number, series: PlottedSeries, choice: Choice): Line {
    const { isDifference, isLog, baseline, smoothing } = choice;
    const key = `${series} ${curve} ${isDifference ? baseline : ''} ${isDifference && isLog}`;
    const points = isDifference
      ? this.#once(key, () => this.#apart(curve, series, choice))
      : this.points(curve, series);
    const line = { curve, series, points };
    // The mean of a validation has little noise to smooth, a learning rate none.
    if (smoothing === 0 || series === 'val' || series === 'lr') return line;
    return { ...line, smoothed: this.#once(`${key} ${smoothing}`, () => smooth(points, smoothing, this.#distance)) };
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

  /** The mean distance of the densest curve's values: the unit of smoothing for all curves, of which some have every tenth step. */
  get #distance(): number {
    const distances = this.#curves.map(({ series: { train: { steps } = none } }) =>
      steps.length > 1 ? (steps.at(-1)! - steps[0]!) / (steps.length - 1) : Number.POSITIVE_INFINITY,
    );
    const least = Math.min(...distances);
    return Number.isFinite(least) ? least : 1;
  }

  /** The smoothing of the first view, light: over 2.5 steps, over 1/200 of more than 500 steps; none of fewer than 20. */
  get lightSmoothing(): number {
    const steps = Math.max(...this.#curves.map(({ series }) => series.train?.steps.length ?? 0));
    return steps < 20 ? 0 : Number((1 - 1 / Math.max(2.5, steps / 200)).toFixed(3));
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
export const curvesInView = ({ curves, axis: { first, last } }: Figure): Curve[] =>
  curves.map((curve) => ({
    ...curve,
    series: Object.fromEntries(
      Object.entries(curve.series).map(([name, { steps, values }]) => {
        const seen = [...steps.keys()].filter((place) => steps[place]! >= first && steps[place]! <= last);
        return [name, { steps: seen.map((place) => steps[place]!), values: seen.map((place) => values[place]!) }];
      }),
    ),
  }));
