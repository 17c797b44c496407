// Shows the values of all curves at the cursor: a table next to it, and a sentence for screen readers.
import { formatStep, formatValue } from '../numbers.ts';
import { valueNear } from '../points.ts';
import type { ReportData } from '../report-data.ts';
import type { Model, State } from './model.ts';

export interface Reading {
  readonly curve: number;
  readonly name: string;
  readonly step: number;
  readonly value: number;
  readonly smoothed?: number;
  readonly apart?: number;
}

/** The values of the visible curves at the cursor, or nearest to it. */
export function readingsAt(model: Model, data: ReportData, state: State): Reading[] {
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
    const step = steps[place]!;
    const apart = apartOf.get(curve);
    const apartAt = apart ? apart.steps.indexOf(step) : -1;
    return [
      {
        curve,
        name,
        step,
        value: values[place]!,
        smoothed: smoothing > 0 ? smoothedOf.get(curve)?.values[place] : undefined,
        apart: apart && apartAt >= 0 ? apart.values[apartAt] : undefined,
      },
    ];
  });
}

/** The sentence for screen readers. */
export const announce = (step: number, readings: readonly Reading[]): string =>
  `step ${formatStep(step)}: ${readings.map(({ name, value }) => `${name} ${formatValue(value)}`).join(', ')}`;

interface Shown {
  readonly step: number;
  /** Tokens per step. */
  readonly tokens: number | undefined;
  readonly readings: readonly Reading[];
  readonly colors: readonly string[];
}

export function fillTooltip(tooltip: HTMLElement, { step, tokens, readings, colors }: Shown): void {
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

const withSign = (value: number): string => `${value > 0 ? '+' : ''}${formatValue(value)}`.replace(/^-/, '−');

/** 1.2M, 9.7k */
function shortCount(count: number): string {
  const [unit, name] = count >= 1e9 ? [1e9, 'B'] : count >= 1e6 ? [1e6, 'M'] : count >= 1e4 ? [1e3, 'k'] : [1, ''];
  return `${(count / unit).toLocaleString('en-US', { maximumFractionDigits: unit === 1 ? 0 : 1 })}${name}`;
}
