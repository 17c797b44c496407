// FP8 for test cases, as cuda/gpt2.h defines it: scales, layouts, random inputs and accepted errors.
import { blockRows, blocksOf, groupsOf } from '../../native/element-types.ts';
import { largestOf, type Numbers, norm, type Random } from './case-numbers.ts';
import type { Bound } from './op-case.ts';

/**
 * The accepted relative error of rounding to E4M3, which has 3 bits of fraction. For numbers from 1 to 2, errors are uniform up to
 * 2^-4: their root mean square is 2^-4 / sqrt(3). The numbers' root mean square is about 1.5, so the relative error is 2.4e-2.
 */
export const e4m3Bound: Bound = { fp32: 2.7e-2, bf16: 2.7e-2 };
export const exact: Bound = { fp32: 0, bf16: 0 };

/** A standard deviation of random numbers that fill the range of E4M3, up to 448. */
export const e4m3Deviation = 100;

/** The scale of a row or a weight with elements up to `largest`: the smallest power of two with `largest` / scale <= 448. */
export function scaleOf(largest: number): number {
  let scale = 2 ** -126;
  while (largest > 448 * scale) scale *= 2;
  return scale;
}

/** An upper bound of a row's L2 norm after rounding to FP8: 17/16 of the norm before rounding, plus the errors of subnormal numbers. */
export const normBound = (row: Numbers): number =>
  (17 / 16) * norm(row) + Math.sqrt(row.length) * 2 ** -10 * scaleOf(largestOf(row, 0));

/** Random scales of rows, 2^-8 to 2^-6: elements of `e4m3Deviation` then have a standard deviation of 0.4 to 1.6. */
export const drawScales = (count: number, random: Random): Float32Array =>
  Float32Array.from(random.integers(count, 3), (power) => 2 ** (power - 8));

/** Values times their scales. `scales` is an array with one scale for each row, or one number for all rows. */
export function scaled(values: Numbers, scales: Numbers | number): Float64Array {
  if (typeof scales === 'number') return new Float64Array(values).map((value) => value * scales);
  const width = values.length / scales.length;
  return new Float64Array(values).map((value, index) => value * scales[Math.floor(index / width)]!);
}

/** The largest of the rows' scales (or norms) in each block of 512 rows: the scales (or norms) of a columnwise copy. */
export const largestOfBlocks = (ofRows: Numbers): Float32Array =>
  Float32Array.from({ length: blocksOf(ofRows.length) }, (_, block) =>
    largestOf(ofRows.subarray(block * blockRows, (block + 1) * blockRows), 0),
  );

/** Row and column, in the matrix [N,C], of each element of its columnwise FP8 copy, in memory order. */
function* placesOf(N: number, C: number): Generator<readonly [row: number, column: number]> {
  for (let column = 0; column < C; column++) {
    for (let first = 0; first < N; first += 16) {
      for (let index = 0; index < 16; index++) yield [first + (index % 2) * 8 + Math.floor(index / 2), column];
    }
  }
}

/** A matrix [N,C] in the order of a columnwise FP8 copy [C,N/16,16], in which missing rows are zeros. */
export function columnwise(rows: Numbers, N: number, C: number): Float64Array {
  const copy = new Float64Array(C * groupsOf(N) * 16);
  let index = 0;
  for (const [row, column] of placesOf(N, C)) copy[index++] = row < N ? rows[row * C + column]! : 0;
  return copy;
}

/** A columnwise FP8 copy [C,N/16,16] as a matrix [N,C]. */
export function rowwise(copy: Numbers, N: number, C: number): Float64Array {
  const rows = new Float64Array(N * C);
  let index = 0;
  for (const [row, column] of placesOf(N, C)) {
    if (row < N) rows[row * C + column] = copy[index]!;
    index++;
  }
  return rows;
}

/** Values of a columnwise FP8 copy [C,groups,16] times the scales of their blocks of 512 rows. */
export const scaledColumnwise = (values: Numbers, scales: Numbers, groups: number): Float64Array =>
  new Float64Array(values).map(
    (value, index) => value * scales[Math.floor(((Math.floor(index / 16) % groups) * 16) / blockRows)]!,
  );

/** `numberOf(row)` for each row of a matrix whose rows have `width` elements. */
export const perRow = (values: Numbers, width: number, numberOf: (row: Numbers) => number): Float32Array =>
  Float32Array.from({ length: values.length / width }, (_, row) =>
    numberOf(values.subarray(row * width, (row + 1) * width)),
  );

export const largestNorm = (values: Numbers, width: number): number => largestOf(perRow(values, width, norm), 0);

/** Sizes with C rounded up to a multiple of 16. */
export const aligned = <S extends Readonly<Record<string, number>>>(sizes: S): S => ({
  ...sizes,
  C: Math.ceil(sizes.C! / 16) * 16,
});
