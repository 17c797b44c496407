// Shows the values of all curves at the cursor, in a table beside it and in a sentence for screen readers.
import { type Axis, type Choice, type Figure, type FigureLines, labelOf, partOf } from '../figure.ts';
import { formatCount, formatValue } from '../format-text.ts';
import { valueNear } from '../points.ts';
import { colorsOf, make, tableOf } from './elements.ts';
import type { View } from './picture.ts';

type Reading = ReturnType<typeof readingsAt>[number];

/** For each visible line its value at its step nearest to the cursor. `apart`: the value minus the baseline's. */
export function readingsAt(lines: FigureLines, figure: Figure, choice: Choice & Pick<View, 'cursor'>) {
  const { cursor, baseline } = choice;
  if (cursor === undefined) return [];
  const readings = lines.lines({ ...choice, isDifference: false }).flatMap((line) => {
    const { curve, series, points, smoothed } = line;
    const place = valueNear(points.steps, cursor);
    if (place === undefined) return [];
    const [step, value] = [points.steps[place]!, points.values[place]!];
    const other = lines.points(baseline, series);
    const otherPlace = curve === baseline ? -1 : other.steps.indexOf(step);
    const apart = otherPlace < 0 ? undefined : value - other.values[otherPlace]!;
    const part = partOf(series);
    return [{ curve, part, name: labelOf(figure, curve, part), step, value, smoothed: smoothed?.values[place], apart }];
  });
  return readings.sort((a, b) => a.curve - b.curve);
}

/** A position on the axis in words: "step 1,024", "1.024 million tokens". */
const describePlace = ({ unit }: Axis, at: number): string =>
  unit === undefined ? `step ${formatCount(at)}` : `${formatCount(at)} ${unit}`;

export const announce = (axis: Axis, at: number, readings: readonly Reading[]): string =>
  `${describePlace(axis, at)}: ${readings.map(({ name, value }) => `${name} ${formatValue(value)}`).join(', ')}`;

export function fillTooltip(tooltip: HTMLElement, step: number, figure: Figure, readings: readonly Reading[]): void {
  const { axis, tokensPerStep: tokens, curves } = figure;
  const hasSmoothed = readings.some(({ smoothed }) => smoothed !== undefined);
  const hasApart = readings.some(({ apart }) => apart !== undefined);
  const head = [
    `${describePlace(axis, step)}${axis.unit !== undefined || tokens === undefined ? '' : ` · ${shortCount(tokens * step)} tokens`}`,
    '',
    ...(hasSmoothed ? ['smoothed'] : []),
    ...(hasApart ? ['difference'] : []),
  ];
  const rows = readings.map(({ name, step: ownStep, value, smoothed, apart }) => [
    formatCount(ownStep) === formatCount(step) ? name : `${name} @ ${formatCount(ownStep)}`,
    formatValue(value),
    ...(hasSmoothed ? [smoothed === undefined ? '' : formatValue(smoothed)] : []),
    ...(hasApart ? [apart === undefined ? '' : withSign(apart)] : []),
  ]);
  const table = tableOf(head, rows);
  for (const [index, { curve, part }] of readings.entries()) {
    const swatch = make('span', '● ');
    swatch.style.color = colorsOf(curves[curve]!)[part];
    table.tBodies[0]!.rows[index]!.cells[0]!.prepend(swatch);
  }
  tooltip.replaceChildren(table);
}

const withSign = (value: number): string => `${value > 0 ? '+' : ''}${formatValue(value)}`.replace(/^-/, '−');

/** A count, abbreviated: "1.2M", "9.7k". */
function shortCount(count: number): string {
  const [unit, name] = count >= 1e9 ? [1e9, 'B'] : count >= 1e6 ? [1e6, 'M'] : count >= 1e4 ? [1e3, 'k'] : [1, ''];
  return `${(count / unit).toLocaleString('en-US', { maximumFractionDigits: unit === 1 ? 0 : 1 })}${name}`;
}
