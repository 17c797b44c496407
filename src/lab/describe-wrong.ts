// Describes wrong elements of a kernel's output: a sentence, a map of the wrong elements, the inputs of the first wrong element.
import { elementCount } from '../native/element-types.ts';
import { type Numbers, norm } from '../ops/cases/case-numbers.ts';
import { shapeOf } from '../ops/cases/prepared-case.ts';
import type { Comparison } from '../ops/cases/run-case.ts';
import { isWritten, type OpContract } from '../ops/contract.ts';
import type { WrongMap, WrongTensor } from '../report/kernel-round.ts';

const [mapWidth, mapHeight] = [60, 12];
/** Most values printed of an input's row or column. */
const mostShown = 4;

type Drawn = Readonly<Record<string, Numbers>>;
type Sizes = Readonly<Record<string, number>>;

/** Describes a wrong output of an op. @param drawn random contents of the op's tensors before the call @param sizes the call's N, C... */
export function wrongTensor(result: Comparison, op: OpContract, drawn: Drawn, sizes: Sizes): WrongTensor {
  const { tensor, shape } = result;
  const name = result.name.replace(/^\S+: /, '');
  if (shape.length === 0) return { sentence: `${name}: something was written there`, map: undefined, inputs: [] };
  const wrong = wrongElements(result);
  const place = placeOf(wrong.indexOf(true), shape);
  return { ...wrongArray({ ...result, name }, wrong), inputs: inputsOf(tensor, place, op, drawn, sizes) };
}

type Compared = Pick<Comparison, 'name' | 'shape' | 'values' | 'wanted'> & Partial<Comparison>;

/** Describes an array that has wrong elements. @param wrong a flag for each element, at least one of them true */
export function wrongArray(result: Compared, wrong: readonly boolean[]): WrongTensor {
  const first = wrong.indexOf(true);
  const place = placeOf(first, result.shape);
  return {
    sentence: `${result.name} is wrong in ${describeWrong(result, wrong)}; the first, [${place.join(', ')}], is ${shown(result.values[first]!)}, expected ${shown(result.wanted[first]!)}`,
    map: mapOfWrong(wrong, result.shape),
    inputs: [],
  };
}

/** Counts wrong elements: "12 of 64 elements (3 of them NaN: ...); the error is ..., the bound ...". */
function describeWrong({ values, wanted, error = Number.NaN, bound = 0 }: Compared, wrong: readonly boolean[]): string {
  const count = wrong.filter(Boolean).length;
  const missing = values.filter((value, index) => Number.isNaN(value) && !Number.isNaN(wanted[index]!)).length;
  const nan = missing > 0 ? ` (${missing} of them NaN: never written, or computed from NaN)` : '';
  const worst = Number.isNaN(error)
    ? ''
    : `; the error is ${error.toExponential(1)}, the bound ${bound.toExponential(1)}`;
  return `${count} of ${wanted.length} elements${nan}${worst}`;
}

const shown = (value: number): string => (Number.isInteger(value) ? String(value) : value.toPrecision(7));

function mapOfWrong(wrong: readonly boolean[], shape: readonly number[]): WrongMap {
  const isVector = wrong.length === shape.at(-1);
  const columns = isVector && wrong.length > mapWidth ? Math.ceil(wrong.length / mapHeight) : shape.at(-1)!;
  const rows = Math.ceil(wrong.length / columns);
  const [wide, high] = [Math.ceil(columns / mapWidth), Math.ceil(rows / mapHeight)];
  const cells = Array.from({ length: Math.ceil(rows / high) }, () =>
    Array.from({ length: Math.ceil(columns / wide) }, () => ' '),
  );
  for (const [index, isWrong] of wrong.entries()) {
    const row = cells[Math.floor(Math.floor(index / columns) / high)]!;
    const column = Math.floor((index % columns) / wide);
    // In the last row of marks, a mark that covers no element stays a space.
    row[column] = isWrong || row[column] === '#' ? '#' : '.';
  }
  return { rows, columns, each: [high, wide], marks: cells.map((row) => row.join('')) };
}

/** The lines that the terminal prints about a wrong tensor. */
export function wrongLines({ sentence, map, inputs }: WrongTensor): string[] {
  if (!map) return [sentence];
  const { rows, columns, each, marks } = map;
  const [high, wide] = each;
  const size = wide * high > 1 ? `, each mark ${high} x ${wide} elements` : '';
  return [
    sentence,
    ...(inputs.length > 0 ? [`  computed from ${inputs.join(', ')}`] : []),
    `  ${rows} rows of ${columns}${size}; # is wrong:`,
    ...marks.map((row) => `    ${row}`.trimEnd()),
  ];
}

/** The inputs that share indices with the first wrong element: "in[100, 88] = 0.5", "in[3, 0 to 3 of 64] = 1, 2, 3, 4". */
function inputsOf(tensor: string, place: readonly number[], { tensors }: OpContract, drawn: Drawn, sizes: Sizes) {
  // `tensor` may name a third of a tensor ("dqkv, part 2 of 3" is dk): the last index in `place` then counts within the third.
  const [, name, part] = /^(\w+)(, part)?/.exec(tensor)!;
  const dimensions = tensors[name!]!.shape.slice(0, part ? -1 : undefined);
  const indices = new Map(dimensions.map((dimension, axis) => [dimension, place[axis]!]));
  const indexOf = (dimension: string) => indices.get(dimension.replace('>=', ''));
  const elementAt = (input: string, at: readonly (number | undefined)[], free = 0) => {
    const lengths = shapeOf(tensors[input]!, sizes);
    return drawn[input]![at.reduce<number>((sum, one, axis) => sum * lengths[axis]! + (one ?? free), 0)]!;
  };
  return Object.entries(tensors).flatMap(([input, contract]) => {
    if (!drawn[input] || (isWritten(contract) && contract.access !== 'updated')) return [];
    const at = contract.shape.map(indexOf);
    // From a lookup table (an embedding) the formula reads only one row: the row of the token id at this position.
    const ids = contract.by === undefined ? undefined : tensors[contract.by]!.shape.map(indexOf);
    if (ids && !ids.includes(undefined)) at[0] = elementAt(contract.by!, ids);
    const free = at.indexOf(undefined);
    // Leave out an input that shares no dimension with the output, or whose elements form more than a row or column.
    if (free !== at.lastIndexOf(undefined) || (free >= 0 && at.length === 1)) return [];
    const length = shapeOf(contract, sizes)[free] ?? 1;
    const count = Math.min(mostShown, length);
    const values = Array.from({ length: count }, (_, index) => shown(elementAt(input, at, index)));
    const text = at.map((one) => one ?? `0 to ${count - 1} of ${length}`);
    return [`${input}[${text.join(', ')}] = ${values.join(', ')}`];
  });
}

/** Whether `found` differs from `wanted` by more than `most`. NaN equals only NaN. The negation makes a comparison with NaN true. */
export const isOff = (found: number, wanted: number, most: number): boolean =>
  !(Math.abs(found - wanted) <= most) && !Object.is(found, wanted);

/** Flags elements whose error exceeds `limit`; if none does, errors over their share of `bound`, a limit on the norm of all errors. */
function wrongElements({ values, wanted, limit, bound }: Comparison): boolean[] {
  const beyond = (most: number) => Array.from(wanted, (value, index) => isOff(values[index]!, value, most));
  const wrong = beyond(limit);
  if (wrong.includes(true)) return wrong;
  // Only the norm of all errors is too large: mark the elements whose errors exceed the root mean square that `bound` allows.
  return beyond((bound * norm(wanted)) / Math.sqrt(wanted.length));
}

/** The indices of an element in a row-major tensor. */
const placeOf = (index: number, shape: readonly number[]): number[] =>
  shape.map((size, axis) => Math.floor(index / elementCount(shape.slice(axis + 1))) % size);
