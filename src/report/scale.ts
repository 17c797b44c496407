// Computes the axes of a plot: their ends, their marks at round numbers, and the labels of the marks. The page's script contains this
// file, because it computes the axes again after every zoom: nothing here needs Node or a DOM.

/** An axis by the values at its two ends. */
export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly isLog?: boolean;
}

/**
 * The axis for values between two extremes, with a margin beyond each extreme.
 * @param extent the least and the largest value; undefined without values
 * @param margin as a fraction of the distance between the extremes
 * @param floor if set, the axis is logarithmic and does not reach below `floor`; smaller values, such as zero, are drawn at its lower end
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

/** The least and the largest finite value; undefined if no value is finite. */
export function extentOf(values: readonly number[]): [least: number, largest: number] | undefined {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return undefined;
  return [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))];
}

/** Position of a value on the axis: 0 at the lower end, 1 at the upper. On a logarithmic axis values below the lower end get 0. */
export function placeOn({ low, high, isLog }: Scale, value: number): number {
  return isLog ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
}

/**
 * About `count` marks with labels. On a logarithmic axis the marks are powers of ten, if at least two powers are in view.
 * @param isWhole leaves out marks that are not integers
 */
export function marksOf({ low, high, isLog }: Scale, count: number, isWhole = false) {
  const powers = isLog ? logTicks(Math.log10(low), Math.log10(high)) : [];
  // A single power of ten would show no scale, so take it only with a second one.
  const hasPowers = powers.length > 1;
  const marks = (hasPowers ? powers : ticks(low, high, count)).filter((mark) => !isWhole || Number.isInteger(mark));
  const format = hasPowers ? formatTick : formatter(marks);
  return marks.map((at) => ({ at, text: format(at) }));
}

/** About `count` round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten. */
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

/** Powers of ten from 10^low to 10^high. Over less than two decades, also 2 and 5 times each power. */
export function logTicks(low: number, high: number): number[] {
  const factors = high - low < 2 ? [1, 2, 5] : [1];
  const first = Math.floor(low);
  return Array.from({ length: Math.ceil(high) - first + 1 }, (_, index) => first + index)
    .flatMap((power) => factors.map((factor) => Number(`${factor}e${power}`)))
    .filter((tick) => Math.log10(tick) >= low - 1e-9 && Math.log10(tick) <= high + 1e-9);
}

/** A mark's label that does not depend on other marks: "10,000", "3e-4". */
export const formatTick = (tick: number): string =>
  tick !== 0 && Math.abs(tick) < 0.01
    ? tick.toExponential()
    : tick.toLocaleString('en-US', { maximumFractionDigits: 6 });

/** One label format for all marks of a linear axis: the same number of decimals; small numbers as multiples of one power of ten. */
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

/** Replaces a leading hyphen with a minus sign, which is as wide as a plus sign. */
const withMinus = (text: string): string => text.replace(/^-/, '\u2212');
