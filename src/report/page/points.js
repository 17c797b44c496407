// @ts-check
// What is done to a curve before it is drawn: unpacking, differences, smoothing, thinning to a screen's columns, the
// nearest point. For the SVG figure and the HTML report alike; knows no DOM. Drawing is left to chart.js and ../svg.ts.

/**
 * A curve: steps rising, one value for each; a value that is not finite interrupts its line.
 * @typedef {{ readonly steps: Float64Array, readonly values: Float64Array }} Points
 */

/**
 * A curve as the report holds it. Evenly spaced steps are told by the first and their distance; values that JSON lacks
 * are words.
 * @typedef {{ readonly first?: number, readonly every?: number, readonly steps?: readonly number[],
 *   readonly values: readonly (number | string)[] }} PackedPoints
 */

/**
 * The number at a place that is there.
 * @param {Float64Array} numbers
 * @param {number} place
 */
export const item = (numbers, place) => numbers[place] ?? Number.NaN;

/**
 * @param {PackedPoints} packed
 * @returns {Points}
 */
export function unpack({ first = 0, every = 1, steps, values }) {
  return {
    steps: steps ? Float64Array.from(steps) : Float64Array.from(values, (_, index) => first + index * every),
    values: Float64Array.from(values, Number),
  };
}

/**
 * Place of the first step that is not before `step`; the number of steps where there is none.
 * @param {Float64Array} steps
 * @param {number} step
 */
export function firstFrom(steps, step) {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (item(steps, middle) < step) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Place of the step nearest to `step`; -1 where there are none.
 * @param {Float64Array} steps
 * @param {number} step
 */
export function nearest(steps, step) {
  const after = firstFrom(steps, step);
  if (after === 0) return steps.length > 0 ? 0 : -1;
  const before = step - item(steps, after - 1);
  return after < steps.length && item(steps, after) - step < before ? after : after - 1;
}

/**
 * Value minus the baseline's, at the steps that both have.
 * @param {Points} points
 * @param {Points} baseline
 * @returns {Points}
 */
export function difference(points, baseline) {
  const steps = [];
  const values = [];
  for (let at = 0, other = 0; at < points.steps.length && other < baseline.steps.length; ) {
    const ahead = item(points.steps, at) - item(baseline.steps, other);
    if (ahead === 0) {
      steps.push(item(points.steps, at));
      values.push(item(points.values, at) - item(baseline.values, other));
    }
    if (ahead <= 0) at += 1;
    if (ahead >= 0) other += 1;
  }
  return { steps: Float64Array.from(steps), values: Float64Array.from(values) };
}

/**
 * The exponential moving average of a curve, its beginning corrected as Adam corrects its moments. Values that are not
 * finite stay and are not averaged.
 * @param {Points} points
 * @param {number} weight of what came before: 0 leaves the curve as it is
 * @returns {Points}
 */
export function smooth({ steps, values }, weight) {
  let sum = 0;
  let share = 0;
  const smoothed = values.map((value) => {
    if (!Number.isFinite(value)) return value;
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
  return { steps, values: smoothed };
}

/**
 * The part of a curve between two steps, with one point beyond each end, in no more than four points a column: the first,
 * the least, the largest and the last, so that no spike is lost and no column costs more than another.
 * @param {Points} points
 * @param {number} from
 * @param {number} to
 * @param {number} columns
 * @returns {Points}
 */
export function thin({ steps, values }, from, to, columns) {
  const start = Math.max(0, firstFrom(steps, from) - 1);
  const end = Math.min(steps.length, firstFrom(steps, to) + 1);
  if (end - start <= 4 * columns) return { steps: steps.subarray(start, end), values: values.subarray(start, end) };
  const width = (to - from) / columns;
  /** @param {number} place */
  const columnOf = (place) => Math.floor((item(steps, place) - from) / width);
  /** @type {number[]} */
  const kept = [];
  for (let at = start; at < end; ) {
    const column = columnOf(at);
    let [least, largest, gap, next] = [-1, -1, -1, at];
    for (; next < end && columnOf(next) === column; next += 1) {
      const value = item(values, next);
      if (!Number.isFinite(value)) gap = next;
      else if (least < 0) [least, largest] = [next, next];
      else if (value < item(values, least)) least = next;
      else if (value > item(values, largest)) largest = next;
    }
    const places = new Set([at, least, largest, gap, next - 1].filter((place) => place >= 0));
    kept.push(...[...places].sort((a, b) => a - b));
    at = next;
  }
  return {
    steps: Float64Array.from(kept, (place) => item(steps, place)),
    values: Float64Array.from(kept, (place) => item(values, place)),
  };
}
