// A figure is a plot of runs and baselines as plain data. This file also computes its lines: curves, differences, limits. make-figure.ts
// makes figures; svg.ts, terminal-plot.ts and page/ draw them. The page's script contains this file: it must not need Node or a DOM.
import type { SeriesName } from '../runs/curves.ts';
import { appliesTo, withinAt } from './compare/compare.ts';
import type { Limit } from './compare/reference.ts';
import type { Table } from './format-text.ts';
import { difference, type Points, smooth } from './points.ts';
import type { Tile } from './tiles.ts';

/** The series of a run that a plot can show: the compared series (losses, norm, learning rate), and tokens per second. */
export type PlottedSeries = SeriesName | 'tokensPerSecond';

/** A curve has two colours: one for its validation loss, one for all other series. */
type Part = 'train' | 'val';
export const partOf = (series: PlottedSeries): Part => (series === 'val' ? 'val' : 'train');

/** The look of a curve. Where colours are not visible, as in print, its dashes and the size of its rings identify it. */
export interface Look {
  /** CSS colours on a light background and on a dark background. `terminal`: the name of a terminal colour. */
  readonly light: Readonly<Record<Part, string>>;
  readonly dark: Readonly<Record<Part, string>>;
  readonly terminal: string;
  /** Lengths of dashes and gaps in pixels, alternating; empty for a solid line. */
  readonly dash: readonly number[];
}

export interface Curve extends Look {
  readonly name: string;
  readonly series: Readonly<Partial<Record<PlottedSeries, Points>>>;
  /** If this curve is a baseline: the losses within which curves compared with it should stay. */
  readonly limits: Readonly<Partial<Record<PlottedSeries, readonly Limit[]>>>;
  /** Series that cannot be compared with the baseline's series, because the data or the validation differ. */
  readonly leftOut: readonly PlottedSeries[];
}

export interface Axis {
  readonly label: string;
  /** Unit of the axis's labels; undefined for steps. */
  readonly unit?: string | undefined;
  /** First and last position of the initial view, which leaves out the first percent: its high losses would flatten all later losses. */
  readonly first: number;
  readonly last: number;
}

export interface Figure {
  readonly title: string;
  readonly axis: Axis;
  /** Baselines first, then runs, which are drawn on top. `baselines`: the number of baselines. */
  readonly curves: readonly Curve[];
  readonly baselines: number;
  /** Index of the curve from which differences are shown until the reader of the page chooses another curve; -1 for none. */
  readonly baseline: number;
  readonly tokensPerStep: number | undefined;
  readonly tables: readonly Table[];
  /** Program, precision and hardware from which the numbers come, one line each. */
  readonly sources: readonly string[];
  /** Model, number of parameters, data, device and dtype; empty unless the figure has a single run. */
  readonly facts: readonly string[];
  /** Defined only in a figure of a single run. */
  readonly run:
    | {
        /** Tokens, epochs and seconds of training so far, in words. */
        readonly seen: readonly string[];
        readonly end: { readonly state: string; readonly text: string };
        readonly tiles: readonly Tile[];
        readonly samples: readonly { readonly step: number; readonly text: string }[];
        readonly lines: readonly string[];
      }
    | undefined;
}

/** The first step of the initial view, which leaves out the first percent of the steps. */
export const firstShown = (lastStep: number): number => Math.floor(lastStep / 100);

/** The choice of content for a plot: one series, or 'loss' for training and validation loss together. */
export type Shown = PlottedSeries | 'loss';

/** Names and units of the contents of a plot. The page's number keys choose contents in this order. */
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
  /** Keys (`keyOf`) of the legend entries whose lines are hidden. */
  readonly hidden: ReadonlySet<string>;
}

export const plainChoice = { isLog: false, isDifference: false, baseline: -1, smoothing: 0, hidden: new Set<string>() };

/** A line to draw: the points of a curve and, on top of them, the smoothed points. */
export interface Line {
  readonly curve: number;
  readonly series: PlottedSeries;
  readonly points: Points;
  readonly smoothed?: Points;
}

export const keyOf = (curve: number, part: Part): string => `${part} ${curve}`;

/** A legend label: "mine", or "mine, validation" for the curve's validation loss; with only one curve "training" and "validation". */
export function labelOf({ curves }: Pick<Figure, 'curves'>, curve: number, part: Part): string {
  const what = part === 'val' ? 'validation' : 'training';
  const { name } = curves[curve]!;
  return curves.length === 1 ? what : part === 'val' ? `${name}, ${what}` : name;
}

/** The legend's entries: runs first, then baselines. An entry shows and hides a curve's validation loss, or its other series. */
export const legendOf = (figure: Pick<Figure, 'curves' | 'baselines'>, shown: Shown) => {
  const entries = figure.curves.flatMap(({ series }, curve) =>
    [...new Set(partsOf(shown).map(partOf))]
      .filter((part) => part === 'train' || series.val?.steps.length)
      .map((part) => ({ key: keyOf(curve, part), curve, part, label: labelOf(figure, curve, part) })),
  );
  // Reorder: baselines come first in `curves`, but the legend starts with the runs, because the figure is about them.
  return [true, false].flatMap((isRun) => entries.filter(({ curve }) => curve >= figure.baselines === isRun));
};

const none: Points = { steps: [], values: [] };

/** Computes the lines and the limit band of a figure, and caches them. */
export class FigureLines {
  readonly #curves: readonly Curve[];
  readonly #cache = new Map<string, Points>();

  constructor({ curves }: Pick<Figure, 'curves'>) {
    this.#curves = curves;
  }

  points(curve: number, series: PlottedSeries): Points {
    return this.#curves[curve]?.series[series] ?? none;
  }

  /** The lines to show for a choice, in drawing order: the last line is on top. */
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
    // Do not smooth validation losses, which are means with little noise, and learning rates, which have none.
    if (smoothing === 0 || series === 'val' || series === 'lr') return line;
    return { ...line, smoothed: this.#once(`${key} ${smoothing}`, () => smooth(points, smoothing, this.#distance)) };
  }

  #apart(curve: number, series: PlottedSeries, { isLog, baseline }: Choice): Points {
    const apart = difference(this.points(curve, series), this.points(baseline, series));
    return isLog ? { steps: apart.steps, values: apart.values.map(Math.abs) } : apart;
  }

  /** The allowed difference at each step of the baseline (NaN: no limit at this step); undefined if the choice shows no limits. */
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

  /** The largest step of any curve, at least 1. */
  get last(): number {
    const ends = this.#curves.flatMap(({ series }) => Object.values(series).map(({ steps }) => steps.at(-1) ?? 0));
    return Math.max(0, ...ends) || 1;
  }

  /** The unit of smoothing for all curves, some of which list only every tenth step: the mean steps between values of the densest curve. */
  get #distance(): number {
    const distances = this.#curves.map(({ series: { train: { steps } = none } }) =>
      steps.length > 1 ? (steps.at(-1)! - steps[0]!) / (steps.length - 1) : Number.POSITIVE_INFINITY,
    );
    const least = Math.min(...distances);
    return Number.isFinite(least) ? least : 1;
  }

  /** Smoothing weight of the initial view: a mean over 2.5 steps, or over 1/200 of the steps if this is more; 0 below 20 steps. */
  get lightSmoothing(): number {
    const steps = Math.max(...this.#curves.map(({ series }) => series.train?.steps.length ?? 0));
    return steps < 20 ? 0 : Number((1 - 1 / Math.max(2.5, steps / 200)).toFixed(3));
  }

  #once(key: string, make: () => Points): Points {
    const found = this.#cache.get(key);
    if (found) return found;
    const made = make();
    // Limit the cache, because every position of the smoothing slider adds lines to it.
    if (this.#cache.size > 200) this.#cache.clear();
    this.#cache.set(key, made);
    return made;
  }
}

/** The figure's curves cut to the initial view, for drawings without zoom (SVG, terminal). */
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
