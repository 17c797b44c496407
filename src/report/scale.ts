// From values to places on an axis: linear and logarithmic scales, round ticks and how they are written. What is drawn at
// those places is left to svg.ts.

/** An axis: where a value lies between its ends (0 to 1), and the values worth a mark. */
export interface Scale {
  readonly place: (value: number) => number;
  readonly ticks: readonly number[];
  /** A tick as it is written. */
  readonly format: (tick: number) => string;
}

/** A scale over the finite ones of some values, with a share of its length as margin at both ends. */
export function linearScale(values: readonly number[], { count, margin }: { count: number; margin: number }): Scale {
  const [least, largest] = extent(values) ?? [0, 1];
  const room = least === largest ? Math.abs(least) / 2 || 1 : (largest - least) * margin;
  const low = margin === 0 ? least : least - room;
  const high = largest + room;
  return { place: (value) => (value - low) / (high - low), ticks: ticks(low, high, count), format: formatTick };
}

/**
 * A logarithmic scale over the finite ones of some values. Values below `floor` (zero among them) lie on its lower end,
 * which is then `floor`.
 */
export function logScale(values: readonly number[], { floor, margin }: { floor: number; margin: number }): Scale {
  const [least, largest] = extent(values.map((value) => Math.max(value, floor))) ?? [floor, floor * 10];
  const room = (Math.log10(largest) - Math.log10(least)) * margin || (least === largest ? 0.2 : 0);
  const low = least === floor ? Math.log10(floor) : Math.log10(least) - room;
  const high = Math.log10(largest) + room;
  return {
    place: (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low),
    ticks: logTicks(low, high),
    format: formatTick,
  };
}

/** Round numbers from `low` to `high`, about `count` of them: steps of 1, 2 or 5 times a power of ten. */
export function ticks(low: number, high: number, count: number): number[] {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  // Adding 0 makes -0 a plain 0.
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toFixed(digits)) + 0);
}

/** Powers of ten between 10^low and 10^high; over less than two decades two and five times them as well. */
export function logTicks(low: number, high: number): number[] {
  const factors = high - low < 2 ? [1, 2, 5] : [1];
  const first = Math.floor(low);
  return Array.from({ length: Math.ceil(high) - first + 1 }, (_, index) => first + index)
    .flatMap((power) => factors.map((factor) => Number(`${factor}e${power}`)))
    .filter((tick) => Math.log10(tick) >= low - 1e-9 && Math.log10(tick) <= high + 1e-9);
}

/** 10,000 with a comma, 0.0003 as 3e-4. */
export const formatTick = (tick: number): string =>
  tick !== 0 && Math.abs(tick) < 0.01
    ? tick.toExponential()
    : tick.toLocaleString('en-US', { maximumFractionDigits: 6 });

function extent(values: readonly number[]): [least: number, largest: number] | undefined {
  let least = Number.POSITIVE_INFINITY;
  let largest = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    least = Math.min(least, value);
    largest = Math.max(largest, value);
  }
  return least <= largest ? [least, largest] : undefined;
}
