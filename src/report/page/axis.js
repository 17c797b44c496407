// @ts-check
// Which round numbers an axis marks, and how they are written: for the SVG figure and for the HTML report alike, which is
// why this is JavaScript and knows no DOM. Where on the axis they lie is left to ../scale.ts and to chart.js.

/**
 * Round numbers from `low` to `high`, about `count` of them: steps of 1, 2 or 5 times a power of ten.
 * @param {number} low
 * @param {number} high
 * @param {number} count
 * @returns {number[]}
 */
export function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const digits = Math.min(100, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  // Adding 0 makes -0 a plain 0.
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toFixed(digits)) + 0);
}

/**
 * Powers of ten between 10^low and 10^high; over less than two decades two and five times them as well.
 * @param {number} low
 * @param {number} high
 * @returns {number[]}
 */
export function logTicks(low, high) {
  const factors = high - low < 2 ? [1, 2, 5] : [1];
  const first = Math.floor(low);
  return Array.from({ length: Math.ceil(high) - first + 1 }, (_, index) => first + index)
    .flatMap((power) => factors.map((factor) => Number(`${factor}e${power}`)))
    .filter((tick) => Math.log10(tick) >= low - 1e-9 && Math.log10(tick) <= high + 1e-9);
}

/**
 * 10,000 with a comma, 0.0003 as 3e-4.
 * @param {number} tick
 * @returns {string}
 */
export const formatTick = (tick) =>
  tick !== 0 && Math.abs(tick) < 0.01
    ? tick.toExponential()
    : tick.toLocaleString('en-US', { maximumFractionDigits: 6 });

/**
 * How an axis' marks are written: with the same number of decimals, or all as powers of ten where all are small.
 * @param {readonly number[]} marks
 * @param {boolean} isLog each mark then stands for itself
 * @returns {(mark: number) => string}
 */
export function formatter(marks, isLog) {
  const largest = Math.max(0, ...marks.map(Math.abs));
  if (isLog || marks.length < 2) return formatTick;
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

/** With the sign that is as wide as a plus, in place of a hyphen. @param {string} text */
const withMinus = (text) => text.replace(/^-/, '\u2212');
