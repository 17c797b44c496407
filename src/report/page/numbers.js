// @ts-check
// How values, steps and times are written beside the plot; knows no DOM. Marks of an axis are axis.js's.

/** @param {number} value */
export function formatValue(value) {
  if (!Number.isFinite(value)) return String(value);
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(3);
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
