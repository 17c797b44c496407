// Prepares a curve's points for drawing. The figures in files and the page do so, so nothing here needs Node or a DOM.

/** A curve: steps rising, one value for each; a value that is not finite interrupts its line. */
export interface Points {
  readonly steps: Float64Array;
  readonly values: Float64Array;
}

/** A curve in a report's JSON: evenly spaced steps by the first and their distance; values that JSON lacks as text. */
export interface PackedPoints {
  readonly first?: number;
  readonly every?: number;
  readonly steps?: readonly number[];
  readonly values: readonly (number | string)[];
}

export function unpack({ first = 0, every = 1, steps, values }: PackedPoints): Points {
  return {
    steps: steps ? Float64Array.from(steps) : Float64Array.from(values, (_, index) => first + index * every),
    values: Float64Array.from(values, Number),
  };
}

/** Place of the point nearest to `step`; none if the curve starts after it or ends before it. */
export function valueNear(steps: Float64Array, step: number): number | undefined {
  const after = steps.findIndex((one) => one >= step);
  if (after < 0 || (after === 0 && steps[0] !== step)) return undefined;
  return after > 0 && step - steps[after - 1]! <= steps[after]! - step ? after - 1 : after;
}

/** Value minus the baseline's, at the steps that both have. */
export function difference({ steps, values }: Points, baseline: Points): Points {
  const recorded = new Map(Array.from(baseline.steps, (step, place) => [step, baseline.values[place]!]));
  const common = [...steps.keys()].filter((place) => recorded.has(steps[place]!));
  return {
    steps: Float64Array.from(common, (place) => steps[place]!),
    values: Float64Array.from(common, (place) => values[place]! - recorded.get(steps[place]!)!),
  };
}

/**
 * The exponential moving average of a curve, with Adam's bias correction at its start. Values that are not finite stay and
 * do not enter the average.
 * @param weight of the past; 0 leaves the curve unchanged
 */
export function smooth({ steps, values }: Points, weight: number): Points {
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
 * The part of a curve between two steps, with one point beyond each end, in at most four points per column: first, least,
 * largest and last, so that no spike is lost.
 */
export function thin({ steps, values }: Points, from: number, to: number, columns: number): Points {
  const start = Math.max(0, firstFrom(steps, from) - 1);
  const end = Math.min(steps.length, firstFrom(steps, to) + 1);
  if (end - start <= 4 * columns) return { steps: steps.subarray(start, end), values: values.subarray(start, end) };
  const width = (to - from) / columns;
  const columnOf = (place: number) => Math.floor((steps[place]! - from) / width);
  const kept: number[] = [];
  for (let at = start; at < end; ) {
    const column = columnOf(at);
    let [least, largest, gap, next] = [-1, -1, -1, at];
    for (; next < end && columnOf(next) === column; next += 1) {
      const value = values[next]!;
      if (!Number.isFinite(value)) gap = next;
      else if (least < 0) [least, largest] = [next, next];
      else if (value < values[least]!) least = next;
      else if (value > values[largest]!) largest = next;
    }
    const places = new Set([at, least, largest, gap, next - 1].filter((place) => place >= 0));
    kept.push(...[...places].sort((a, b) => a - b));
    at = next;
  }
  return {
    steps: Float64Array.from(kept, (place) => steps[place]!),
    values: Float64Array.from(kept, (place) => values[place]!),
  };
}

/** Place of the first step that is not before `step`; the number of steps if there is none. */
function firstFrom(steps: Float64Array, step: number): number {
  const place = steps.findIndex((one) => one >= step);
  return place < 0 ? steps.length : place;
}
