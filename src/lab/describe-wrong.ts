// Describes what is wrong with a tensor: a sentence, and a map of where.
import { norm } from '../op-cases/numbers.ts';
import type { Comparison } from '../op-cases/run-case.ts';

const [mapWidth, mapHeight] = [60, 12];

/** "din (+=) is wrong in 12 of 64 elements: ..."; elements are those that are further off than the bound lets one be. */
export function describeWrong({ name, shape, values, wanted, limit, error, bound }: Comparison): string {
  const what = name.replace(/^\S+: /, '');
  if (shape.length === 0) return `${what}: something was written there`;
  const wrong = wrongElements({ values, wanted, limit, bound });
  const first = wrong.indexOf(true);
  const count = wrong.filter(Boolean).length;
  let missing = 0;
  for (const [index, value] of values.entries()) {
    if (Number.isNaN(value) && !Number.isNaN(wanted[index]!)) missing++;
  }
  const nan = missing > 0 ? ` (${missing} of them NaN: never written, or computed from NaN)` : '';
  const worst = Number.isNaN(error)
    ? ''
    : `; the error is ${error.toExponential(1)}, the bound ${bound.toExponential(1)}`;
  return `${what} is wrong in ${count} of ${wanted.length} elements${nan}${worst}; the first, [${placeOf(first, shape)}], is ${shown(values[first]!)}, expected ${shown(wanted[first]!)}`;
}

const shown = (value: number): string => (Number.isInteger(value) ? String(value) : value.toPrecision(7));

/** Where a tensor is wrong: rows are its leading dimensions together, columns the last one; a long vector is wrapped. */
export function mapOfWrong({ shape, values, wanted, limit, bound }: Comparison): string[] {
  if (shape.length === 0) return [];
  const wrong = wrongElements({ values, wanted, limit, bound });
  const isVector = wrong.length === shape.at(-1);
  const columns = isVector && wrong.length > mapWidth ? Math.ceil(wrong.length / mapHeight) : shape.at(-1)!;
  const rows = Math.ceil(wrong.length / columns);
  const [wide, high] = [Math.ceil(columns / mapWidth), Math.ceil(rows / mapHeight)];
  const cells = Array.from({ length: Math.ceil(rows / high) }, () =>
    Array.from({ length: Math.ceil(columns / wide) }, () => '.'),
  );
  for (const [index, isWrong] of wrong.entries()) {
    if (isWrong) cells[Math.floor(Math.floor(index / columns) / high)]![Math.floor((index % columns) / wide)] = '#';
  }
  const each = wide * high > 1 ? `, each mark ${high} x ${wide} elements` : '';
  return [`${rows} rows of ${columns}${each}; # is wrong:`, ...cells.map((row) => `  ${row.join('')}`)];
}

function wrongElements({ values, wanted, limit, bound }: Pick<Comparison, 'values' | 'wanted' | 'limit' | 'bound'>) {
  const beyond = (most: number) =>
    // NaN compares false.
    Array.from(
      wanted,
      (value, index) => !(Math.abs(values[index]! - value) <= most) && !Object.is(values[index]!, value),
    );
  const wrong = beyond(limit);
  if (wrong.includes(true)) return wrong;
  // No element is far off by itself; many are, a little.
  return beyond((bound * norm(wanted)) / Math.sqrt(wanted.length));
}

/** The indices of an element in its tensor. */
function placeOf(index: number, shape: readonly number[]): string {
  const place: number[] = [];
  let rest = index;
  for (const size of [...shape].reverse()) {
    place.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return place.join(', ');
}
