// From values to places on an axis: linear and logarithmic scales. Which round numbers are marked is in page/axis.js, which
// the HTML report shares; what is drawn at those places is left to svg.ts.
import { formatTick, formatter, logTicks, ticks } from './page/axis.js';

export { formatTick, logTicks, ticks };

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
  const marks = ticks(low, high, count);
  return { place: (value) => (value - low) / (high - low), ticks: marks, format: formatter(marks, false) };
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
  const place = (value: number) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low);
  const powers = logTicks(low, high);
  // One mark tells no scale: within a decade the round numbers of a linear axis are marked.
  const marks = powers.length > 1 ? powers : ticks(10 ** low, 10 ** high, 4);
  return { place, ticks: marks, format: formatter(marks, powers.length > 1) };
}

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
