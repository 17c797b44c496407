// Functions on a curve's points, for drawing. The page's script contains this file, so nothing here needs Node or a DOM.

/** A curve: ascending steps with one value each. NaN or an infinity interrupts the line. */
export interface Points {
  readonly steps: readonly number[];
  readonly values: readonly number[];
}

/** Rounds to nine digits, enough for fp32 and for every axis. More digits would only make a report larger. */
const rounded = (value: number): number => Number(value.toPrecision(9));

/** A replacer for JSON.stringify. Evenly spaced steps are stored as `first` and `every`, NaN and infinities as text. */
export function pack(_: string, data: Partial<Points> | null): unknown {
  if (!data?.steps || !data.values) return data;
  const steps = data.steps.map(rounded);
  const values = data.values.map((value) => (Number.isFinite(value) ? rounded(value) : `${value}`));
  const [first = 0, second = first + 1] = steps;
  const every = second - first;
  const isEven = steps.every((step, index) => step === first + index * every);
  return isEven ? { first, every, values } : { steps, values };
}

/** A reviver for JSON.parse that undoes `pack`. */
export function unpack(_: string, data: { first: number; every: number; steps?: number[]; values: unknown } | null) {
  // Only unpack objects whose `values` is an array: the `values` of an array is a method.
  if (!Array.isArray(data?.values)) return data;
  const { first, every, steps } = data;
  const values = data.values.map(Number);
  return { steps: steps ?? values.map((_, index) => first + index * every), values };
}

/** The index, in `steps`, of the value nearest to `step`; undefined if `step` is before the first or after the last. */
export function valueNear(steps: readonly number[], step: number): number | undefined {
  const after = steps.findIndex((one) => one >= step);
  if (after < 0 || (after === 0 && steps[0] !== step)) return undefined;
  return after > 0 && step - steps[after - 1]! <= steps[after]! - step ? after - 1 : after;
}

/** A curve minus the baseline, at the steps that the two have in common. */
export function difference({ steps, values }: Points, baseline: Points): Points {
  const recorded = new Map(baseline.steps.map((step, place) => [step, baseline.values[place]!]));
  const common = [...steps.keys()].filter((place) => recorded.has(steps[place]!));
  const at = common.map((place) => steps[place]!);
  return { steps: at, values: common.map((place) => values[place]! - recorded.get(steps[place]!)!) };
}

/**
 * The exponential moving average of a curve, with Adam's bias correction at the start. NaN and infinities stay and are not averaged.
 * If two values are n times `distance` apart, the earlier values decay by weight^sqrt(n) in between. With weight^1 a sparse curve would
 * lag n times as far behind as a dense curve; with weight^n it would hardly be smoothed.
 * @param weight share of the past after `distance` steps, 0 to 1; 0 leaves the curve unchanged
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

/** Reduces a curve to about four points per column: first, least, largest and last. No spike is lost. */
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
