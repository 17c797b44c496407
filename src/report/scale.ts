// Computes axes: linear and logarithmic scales, the round numbers they mark and the text of the marks. The figures in files and in the
// terminal use all of it; the page leaves scales to uPlot and uses the marks, so nothing here needs Node or a DOM.
import type { Axis } from './axis.ts';

/** An axis: the place of a value between its ends (0 to 1), and the values to mark. */
export interface Scale {
  readonly place: (value: number) => number;
  readonly ticks: readonly number[];
  readonly format: (tick: number) => string;
}

/** A scale over the finite values among some, with a share of its length as margin at both ends. */
export function linearScale(values: readonly number[], { count, margin }: { count: number; margin: number }): Scale {
  const [least, largest] = extent(values) ?? [0, 1];
  const room = least === largest ? Math.abs(least) / 2 || 1 : (largest - least) * margin;
  const low = margin === 0 ? least : least - room;
  const high = largest + room;
  return { place: (value) => (value - low) / (high - low), ...linearMarks(low, high, count) };
}

/** Likewise, logarithmic. Values below `floor` (zero among them) lie on the lower end, which is then `floor`. */
export function logScale(values: readonly number[], { floor, margin }: { floor: number; margin: number }): Scale {
  const [least, largest] = extent(values.map((value) => Math.max(value, floor))) ?? [floor, floor * 10];
  const room = (Math.log10(largest) - Math.log10(least)) * margin || (least === largest ? 0.2 : 0);
  const low = least === floor ? Math.log10(floor) : Math.log10(least) - room;
  const high = Math.log10(largest) + room;
  const place = (value: number) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low);
  return { place, ...logMarks(low, high, 4) };
}

export function linearMarks(low: number, high: number, count: number): Pick<Scale, 'ticks' | 'format'> {
  const marks = ticks(low, high, count);
  return { ticks: marks, format: formatter(marks) };
}

/** Marks of a logarithmic axis from 10^low to 10^high; `count` of a linear one where fewer than two would be powers. */
export function logMarks(low: number, high: number, count: number): Pick<Scale, 'ticks' | 'format'> {
  const powers = logTicks(low, high);
  // One mark shows no scale.
  return powers.length > 1 ? { ticks: powers, format: formatTick } : linearMarks(10 ** low, 10 ** high, count);
}

/** Those marks of a horizontal axis that exist: there is no half a step. */
export const marksOn = ({ unit }: Axis, marks: readonly number[]): readonly number[] =>
  unit === undefined ? marks.filter(Number.isInteger) : marks;

function extent(values: readonly number[]): [least: number, largest: number] | undefined {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return undefined;
  return [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))];
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

/** Powers of ten between 10^low and 10^high; over less than two decades also two and five times them. */
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

/** One format for a linear axis' marks: all with the same number of decimals, or if they are small as multiples of one power of ten. */
export function formatter(marks: readonly number[]): (mark: number) => string {
  const largest = Math.max(0, ...marks.map(Math.abs));
  if (marks.length < 2) return formatTick;
  const step = Math.abs(Number(marks[1]) - Number(marks[0]));
  if (largest < 0.01) {
    const power = Math.floor(Math.log10(largest) + 1e-9);
    const digits = Math.max(0, power - Math.floor(Math.log10(step) + 1e-9));
    return (mark) => (mark === 0 ? '0' : `${withMinus((mark / 10 ** power).toFixed(digits))}e${power}`);
  }
  const digits = Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return (mark) =>
    withMinus(mark.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits }));
}

/** With a minus sign, which is as wide as a plus, in place of a hyphen. */
const withMinus = (text: string): string => text.replace(/^-/, '\u2212');
