// Prepares a curve's points for drawing. The page runs this file too, so nothing here needs Node or a DOM.

/** A curve: ascending steps, one value for each; a value that is not finite interrupts the line. */
export interface Points {
  readonly steps: readonly number[];
  readonly values: readonly number[];
}

/** Single precision has at most nine digits, and no axis shows more; more would only make a report longer. */
const rounded = (value: number): number => Number(value.toPrecision(9));

/**
 * A replacer for JSON.stringify: evenly spaced steps become the first step and the distance, values that JSON lacks become text.
 */
export function pack(_: string, data: Partial<Points> | null): unknown {
  if (!data?.steps || !data.values) return data;
  const steps = data.steps.map(rounded);
  const values = data.values.map((value) => (Number.isFinite(value) ? rounded(value) : `${value}`));
  const [first = 0, second = first + 1] = steps;
  const every = second - first;
  const isEven = steps.every((step, index) => step === first + index * every);
  return isEven ? { first, every, values } : { steps, values };
}

/** The reviver of JSON.parse that undoes `pack`. */
export function unpack(_: string, data: { first: number; every: number; steps?: number[]; values: unknown } | null) {
  // An array has a method of that name.
  if (!Array.isArray(data?.values)) return data;
  const { first, every, steps } = data;
  const values = data.values.map(Number);
  return { steps: steps ?? values.map((_, index) => first + index * every), values };
}

/** Index of the point nearest to `step`; undefined if the curve starts after the step or ends before it. */
export function valueNear(steps: readonly number[], step: number): number | undefined {
  const after = steps.findIndex((one) => one >= step);
  if (after < 0 || (after === 0 && steps[0] !== step)) return undefined;
  return after > 0 && step - steps[after - 1]! <= steps[after]! - step ? after - 1 : after;
}

/** Differences from the baseline's values, at the common steps. */
export function difference({ steps, values }: Points, baseline: Points): Points {
  const recorded = new Map(baseline.steps.map((step, place) => [step, baseline.values[place]!]));
  const common = [...steps.keys()].filter((place) => recorded.has(steps[place]!));
  const at = common.map((place) => steps[place]!);
  return { steps: at, values: common.map((place) => values[place]! - recorded.get(steps[place]!)!) };
}

/**
 * The exponential moving average of a curve, with Adam's bias correction at its start. Values that are not finite stay and do not
 * enter the average. A curve of every n-th step forgets as much between two values as others in sqrt(n) steps: in 1 it would fall n
 * times as late as they, in n it would hardly be smoothed.
 * @param weight weight of the past `distance` steps before; 0 leaves the curve unchanged
 */
export function smooth({ steps, values }: Points, weight: number, distance = 1): Points {
  let [sum, share, at] = [0, 0, steps[0]! - distance];
  const smoothed = values.map((value, index) => {
    if (!Number.isFinite(value)) return value;
    const past = weight ** Math.sqrt((steps[index]! - at) / distance);
    at = steps[index]!;
    sum = past * sum + (1 - past) * value;
    share = past * share + (1 - past);
    return sum / share;
  });
  return { steps, values: smoothed };
}

/** A curve with at most four points per column: first, least, largest and last, so that no spike is lost. */
export function thin({ steps, values }: Points, columns: number): Points {
  if (steps.length <= 4 * columns) return { steps, values };
  const from = steps[0]!;
  const width = (steps.at(-1)! - from) / columns;
  const columnOf = (place: number) => Math.floor((steps[place]! - from) / width);
  const kept: number[] = [];
  for (let at = 0; at < steps.length; ) {
    const column = columnOf(at);
    let [least, largest, gap, next] = [-1, -1, -1, at];
    for (; next < steps.length && columnOf(next) === column; next += 1) {
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
  return { steps: kept.map((place) => steps[place]!), values: kept.map((place) => values[place]!) };
}
