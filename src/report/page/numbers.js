// @ts-check
// How values, steps and times are written, in the terminal as beside the plot; knows no DOM. Marks of an axis are axis.js's.

/**
 * With four decimals, as llm.c prints losses; where they would not be three digits (a learning rate), with an exponent.
 * @param {number} value
 */
export function formatValue(value) {
  if (!Number.isFinite(value) || value === 0) return String(value);
  if (Math.abs(value) < 1e-2) return value.toExponential(2);
  return value.toFixed(Math.abs(value) >= 100 ? 2 : 4);
}

/** @param {number} step */
export const formatStep = (step) => step.toLocaleString('en-US');

/** "2h03m", "3m07s", "12s" @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours > 0) return `${hours}h${String(minutes).padStart(2, '0')}m`;
  return minutes > 0 ? `${minutes}m${String(rest).padStart(2, '0')}s` : `${rest}s`;
}
