// @ts-check
// The values of all curves at the cursor: the table beside it, and the sentence for those who cannot see it. Where the
// cursor stands is left to page.js.
import { valueNear } from './chart.js';
import { formatStep, formatValue } from './numbers.js';
import { item } from './points.js';

/** @typedef {import('./model.js').Model} Model */
/** @typedef {import('./model.js').State} State */
/** @typedef {import('./model.js').ReportData} ReportData */
/** @typedef {{ curve: number, name: string, step: number, value: number, smoothed?: number, apart?: number }} Reading */

/**
 * What the visible curves measured at the cursor, or nearest to it.
 * @param {Model} model
 * @param {ReportData} data
 * @param {State} state
 * @returns {Reading[]}
 */
export function readingsAt(model, data, state) {
  const { cursor, series, baseline, smoothing, hidden } = state;
  if (cursor === undefined) return [];
  const smoothedOf = new Map(model.lines({ ...state, isDifference: false }).map((line) => [line.curve, line.smoothed]));
  const apartOf = new Map(
    baseline < 0
      ? []
      : model.lines({ ...state, isDifference: true, isLog: false }).map((line) => [line.curve, line.points]),
  );
  return data.curves.flatMap(({ name }, curve) => {
    if (hidden.has(curve)) return [];
    const { steps, values } = model.points(curve, series);
    const place = valueNear(steps, cursor);
    if (place === undefined) return [];
    const step = item(steps, place);
    const apart = apartOf.get(curve);
    const apartAt = apart ? apart.steps.indexOf(step) : -1;
    return [
      {
        curve,
        name,
        step,
        value: item(values, place),
        smoothed: smoothing > 0 ? smoothedOf.get(curve)?.values[place] : undefined,
        apart: apart && apartAt >= 0 ? apart.values[apartAt] : undefined,
      },
    ];
  });
}

/**
 * One line of the sentence that is read out.
 * @param {number} step
 * @param {readonly Reading[]} readings
 */
export const announce = (step, readings) =>
  `step ${formatStep(step)}: ${readings.map(({ name, value }) => `${name} ${formatValue(value)}`).join(', ')}`;

/**
 * Fills the tooltip.
 * @param {HTMLElement} tooltip
 * @param {{ step: number, tokens: number | undefined, readings: readonly Reading[], colors: readonly string[] }} shown
 */
export function fillTooltip(tooltip, { step, tokens, readings, colors }) {
  const table = document.createElement('table');
  const hasSmoothed = readings.some(({ smoothed }) => smoothed !== undefined);
  const hasApart = readings.some(({ apart }) => apart !== undefined);
  const head = [
    `step ${formatStep(step)}${tokens === undefined ? '' : ` · ${shortCount(tokens * step)} tokens`}`,
    '',
    ...(hasSmoothed ? ['smoothed'] : []),
    ...(hasApart ? ['difference'] : []),
  ];
  const headRow = table.insertRow();
  for (const text of head) headRow.append(Object.assign(document.createElement('th'), { textContent: text }));
  for (const { curve, name, step: own, value, smoothed, apart } of readings) {
    const row = table.insertRow();
    const label = row.insertCell();
    const swatch = document.createElement('span');
    swatch.textContent = '● ';
    swatch.style.color = colors[curve] ?? '';
    label.append(swatch, own === step ? name : `${name} @ ${formatStep(own)}`);
    row.insertCell().textContent = formatValue(value);
    if (hasSmoothed) row.insertCell().textContent = smoothed === undefined ? '' : formatValue(smoothed);
    if (hasApart) row.insertCell().textContent = apart === undefined ? '' : withSign(apart);
  }
  tooltip.replaceChildren(table);
}

/** @param {number} value */
const withSign = (value) => `${value > 0 ? '+' : ''}${formatValue(value)}`.replace(/^-/, '−');

/** 1.2M, 9.7k @param {number} count */
function shortCount(count) {
  const [unit, name] = count >= 1e9 ? [1e9, 'B'] : count >= 1e6 ? [1e6, 'M'] : count >= 1e4 ? [1e3, 'k'] : [1, ''];
  return `${(count / unit).toLocaleString('en-US', { maximumFractionDigits: unit === 1 ? 0 : 1 })}${name}`;
}
