// @ts-check
// From the report's data and what the reader has chosen to what is to be seen: lines, tolerance band, axis range, the
// values at a step. What is done to one curve is in points.js, drawing is left to chart.js, choosing to page.js.
import { difference, firstFrom, item, nearest, smooth, unpack } from './points.js';

/** @typedef {import('./points.js').Points} Points */
/** @typedef {import('../report-data.ts').ReportData} ReportData */
/** @typedef {import('../report-data.ts').PlottedSeries} PlottedSeries */

/**
 * What the reader has chosen.
 * @typedef {{ series: PlottedSeries, isLog: boolean, isDifference: boolean, baseline: number, smoothing: number,
 *   hidden: Set<number>, from: number, to: number, range: Range | undefined, cursor: number | undefined }} State
 */

/** Ends of the vertical axis. @typedef {{ low: number, high: number }} Range */

/** A curve as it is drawn; `smoothed` lies over `points`. @typedef {{ curve: number, points: Points, smoothed?: Points }} Line */

/** Names and units of the series, in the order of the keys that choose them. */
export const seriesLabels = /** @type {const} */ ({
  train: { short: 'Train', long: 'training loss (nats per token)' },
  val: { short: 'Validation', long: 'validation loss (nats per token)' },
  norm: { short: 'Norm', long: 'gradient norm' },
  lr: { short: 'Learning rate', long: 'learning rate' },
  tokensPerSecond: { short: 'Throughput', long: 'throughput (tokens per second)' },
});

/** Lines and bands of a report; each is worked out once for what is chosen. */
export class Model {
  #data;
  /** @type {Map<string, Points>} */
  #cache = new Map();

  /** @param {ReportData} data */
  constructor(data) {
    this.#data = data;
  }

  /**
   * A curve's own points.
   * @param {number} curve
   * @param {PlottedSeries} series
   */
  points(curve, series) {
    return this.#once(`${series} ${curve}`, () => {
      const found = this.#data.curves[curve]?.series[series];
      return found ? unpack(found) : { steps: new Float64Array(), values: new Float64Array() };
    });
  }

  /**
   * The lines to be drawn, the last on top.
   * @param {State} state
   * @returns {Line[]}
   */
  lines(state) {
    const { series, isDifference, isLog, baseline, smoothing, hidden } = state;
    return [...this.#data.curves.keys()]
      .filter((curve) => !hidden.has(curve) && !(isDifference && curve === baseline))
      .map((curve) => {
        const key = `${series} ${curve} ${isDifference ? baseline : ''} ${isDifference && isLog}`;
        const points = this.#once(key, () => this.#shown(curve, state));
        if (smoothing === 0) return { curve, points };
        return { curve, points, smoothed: this.#once(`${key} ${smoothing}`, () => smooth(points, smoothing)) };
      });
  }

  /** @param {number} curve @param {State} state */
  #shown(curve, { series, isDifference, isLog, baseline }) {
    const own = this.points(curve, series);
    if (!isDifference) return own;
    const apart = difference(own, this.points(baseline, series));
    return isLog ? { steps: apart.steps, values: apart.values.map(Math.abs) } : apart;
  }

  /**
   * What a curve may be off by at each step of the baseline; NaN where no limit speaks. Undefined where none does at all.
   * @param {State} state
   * @returns {Points | undefined}
   */
  band({ series, isDifference, baseline }) {
    const limits = this.#data.curves[baseline]?.limits[series] ?? [];
    if (!isDifference || limits.length === 0) return undefined;
    return this.#once(`${series} ${baseline} band`, () => {
      const { steps, values } = this.points(baseline, series);
      const within = values.map((value, index) => {
        const step = item(steps, index);
        const speaking = limits.filter(({ from, to }) => step >= from && step <= to);
        if (speaking.length === 0) return Number.NaN;
        return Math.min(
          ...speaking.map(({ within: flat, relativeAbove }) =>
            relativeAbove && value > relativeAbove.above ? value * relativeAbove.within : flat,
          ),
        );
      });
      return { steps, values: within };
    });
  }

  /** The first and the last step of all curves. */
  extent() {
    const { curves } = this.#data;
    const ends = [...curves.keys()].flatMap((curve) =>
      /** @type {PlottedSeries[]} */ (Object.keys(seriesLabels)).flatMap((series) => {
        const { steps } = this.points(curve, series);
        return steps.length > 0 ? [steps[0] ?? 0, steps.at(-1) ?? 0] : [];
      }),
    );
    return { from: Math.min(...ends, 0), to: Math.max(...ends, 1) };
  }

  /**
   * The step with a value that is nearest to `step`, of all visible curves.
   * @param {State} state
   * @param {number} step
   * @returns {number | undefined}
   */
  nearestStep(state, step) {
    const steps = this.lines(state).flatMap(({ points }) => {
      const place = nearest(points.steps, step);
      return place < 0 ? [] : [item(points.steps, place)];
    });
    return steps.sort((a, b) => Math.abs(a - step) - Math.abs(b - step))[0];
  }

  /**
   * The next step with a value after `step`, or with `direction` -1 before it.
   * @param {State} state
   * @param {number} step
   * @param {1 | -1} direction
   * @returns {number}
   */
  neighbour(state, step, direction) {
    const steps = this.lines(state).flatMap(({ points }) => {
      const place = direction > 0 ? firstFrom(points.steps, step + 0.5) : firstFrom(points.steps, step) - 1;
      return points.steps[place] ?? [];
    });
    if (steps.length === 0) return step;
    return direction > 0 ? Math.min(...steps) : Math.max(...steps);
  }

  /** @param {string} key @param {() => Points} make */
  #once(key, make) {
    const found = this.#cache.get(key);
    if (found) return found;
    const made = make();
    // A slider leaves one line behind at every place it passes.
    if (this.#cache.size > 200) this.#cache.clear();
    this.#cache.set(key, made);
    return made;
  }
}

/**
 * Ends of the vertical axis for what is in view. On a logarithmic axis only positive values count.
 * @param {readonly Line[]} lines
 * @param {Points | undefined} band
 * @param {Pick<State, 'from' | 'to' | 'isLog' | 'range'>} state
 * @returns {Range}
 */
export function rangeOf(lines, band, { from, to, isLog, range }) {
  if (range) return range;
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  /** @param {Points} points @param {1 | -1} sign */
  const include = ({ steps, values }, sign) => {
    const end = Math.min(steps.length, firstFrom(steps, to + 1e-9));
    for (let at = firstFrom(steps, from); at < end; at += 1) {
      const value = sign * item(values, at);
      if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  };
  for (const { points, smoothed } of lines) {
    include(points, 1);
    if (smoothed) include(smoothed, 1);
  }
  if (band) include(band, 1);
  if (band && !isLog) include(band, -1);
  if (low > high) return isLog ? { low: 0.1, high: 1 } : { low: 0, high: 1 };
  if (isLog) {
    // Two values may be as good as equal at one step: that should not make the others lie on one line.
    const least = Math.max(low, high / 1e6);
    const room = (high / least) ** 0.04 * (high === least ? 1.5 : 1);
    return { low: least / room, high: high * room };
  }
  const room = (high - low) * 0.04 || Math.abs(high) / 2 || 1;
  return { low: low - room, high: high + room };
}
