// Computes axes: ends for some values, round numbers to mark, and the texts of the marks. The page runs this file too, again
// after every zoom, so nothing here needs Node or a DOM.

/** An axis: the values at its ends. */
export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly isLog?: boolean;
}

/**
 * An axis for values, with margins at both ends of this fraction of its length.
 * @param extent the least and the largest value; undefined: there are none
 * @param floor makes the axis logarithmic and is its lower end; smaller values, such as zero, are drawn there
 */
export function scaleOf(extent: readonly [number, number] | undefined, margin: number, floor?: number): Scale {
  if (floor === undefined) {
    const [least, largest] = extent ?? [0, 1];
    const room = least === largest ? Math.abs(least) / 2 || 1 : (largest - least) * margin;
    return { low: least - room, high: largest + room };
  }
  const [low, high] = (extent ?? [floor, floor * 10]).map((value) => Math.max(value, floor)) as [number, number];
  const room = low === high ? 10 ** 0.2 : (high / low) ** margin;
  return { low: low === floor ? floor : low / room, high: high * room, isLog: true };
}

/** The least and the largest finite value; undefined if there are none. */
export function extentOf(values: readonly number[]): [least: number, largest: number] | undefined {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return undefined;
  return [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))];
}

/** A value's place between the ends, 0 to 1; on a logarithmic axis values below the lower end are placed there. */
export function placeOn({ low, high, isLog }: Scale, value: number): number {
  return isLog ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
}

/**
 * About `count` marks; on a logarithmic axis powers of ten, if it has two.
 * @param isWhole leaves out marks that are not integers
 */
export function marksOf({ low, high, isLog }: Scale, count: number, isWhole = false) {
  const powers = isLog ? logTicks(Math.log10(low), Math.log10(high)) : [];
  // A single mark shows no scale.
  const hasPowers = powers.length > 1;
  const marks = (hasPowers ? powers : ticks(low, high, count)).filter((mark) => !isWhole || Number.isInteger(mark));
  const format = hasPowers ? formatTick : formatter(marks);
  return marks.map((at) => ({ at, text: format(at) }));
}

/** Round numbers from `low` to `high`, about `count` of them: steps of 1, 2 or 5 times a power of ten. */
export function ticks(low: number, high: number, count: number): number[] {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const digits = Math.min(100, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  // Adding 0 turns -0 into 0.
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toFixed(digits)) + 0);
}

/** Powers of ten between 10^low and 10^high; over less than two decades also their multiples by two and five. */
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

/**
 * One format for the marks of a linear axis: all with the same number of decimals; small ones as multiples of one power of ten.
 */
export function formatter(marks: readonly number[]): (mark: number) => string {
  const largest = Math.max(0, ...marks.map(Math.abs));
  if (marks.length < 2) return formatTick;
  const step = Math.abs(Number(marks[1]) - Number(marks[0]));
  const digitsFrom = (power: number) => Math.max(0, power - Math.floor(Math.log10(step) + 1e-9));
  if (largest < 0.01) {
    const power = Math.floor(Math.log10(largest) + 1e-9);
    return (mark) => (mark === 0 ? '0' : `${withMinus((mark / 10 ** power).toFixed(digitsFrom(power)))}e${power}`);
  }
  const digits = Math.min(20, digitsFrom(0));
  return (mark) =>
    withMinus(mark.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits }));
}

/** Replaces a hyphen by a minus sign, which is as wide as a plus. */
const withMinus = (text: string): string => text.replace(/^-/, '\u2212');
