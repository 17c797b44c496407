// Tensors in FP8 as cuda/gpt2.h defines them: scales, inputs, and bounds.
import { blockRows, blocksOf, groupsOf } from '../../native/element-types.ts';
import { largestOf, type Numbers, norm, type Random } from './case-numbers.ts';
import type { Bound } from './op-case.ts';

/**
 * E4M3 has 3 bits of fraction: errors of numbers from 1 to 2 are uniform up to 2^-4, with a root mean square of 2^-4 / sqrt(3).
 * The numbers' root mean square is about 1.5: a relative error of 2.4e-2.
 */
export const e4m3Bound: Bound = { fp32: 2.7e-2, bf16: 2.7e-2 };
export const exact: Bound = { fp32: 0, bf16: 0 };

/** Standard deviation of inputs in E4M3 that use its range. */
export const e4m3Deviation = 100;

/** The scale of a row or a weight with elements up to `largest`: the smallest power of two that brings them to at most 448. */
export function scaleOf(largest: number): number {
  let scale = 2 ** -126;
  while (largest > 448 * scale) scale *= 2;
  return scale;
}

/** An upper bound of a row's norm after rounding to FP8: 17/16 of its norm before, and the errors of subnormal numbers. */
export const normBound = (row: Numbers): number =>
  (17 / 16) * norm(row) + Math.sqrt(row.length) * 2 ** -10 * scaleOf(largestOf(row, 0));

/** Scales of rows, so that their elements have a standard deviation of 0.4 to 1.6. */
export const drawScales = (count: number, random: Random): Float32Array =>
  Float32Array.from(random.integers(count, 3), (power) => 2 ** (power - 8));

/** Values times scales: one for each row, or one for all. */
export function scaled(values: Numbers, scales: Numbers | number): Float64Array {
  if (typeof scales === 'number') return new Float64Array(values).map((value) => value * scales);
  const width = values.length / scales.length;
  return new Float64Array(values).map((value, index) => value * scales[Math.floor(index / width)]!);
}

/** The largest value in each block of rows: a columnwise copy's scales from the rows' scales, or its norms from their norms. */
export const largestOfBlocks = (ofRows: Numbers): Float32Array =>
  Float32Array.from({ length: blocksOf(ofRows.length) }, (_, block) =>
    largestOf(ofRows.subarray(block * blockRows, (block + 1) * blockRows), 0),
  );

/** The row and column of each element of a columnwise copy, in order. */
function* placesOf(N: number, C: number): Generator<readonly [row: number, column: number]> {
  for (let column = 0; column < C; column++) {
    for (let first = 0; first < N; first += 16) {
      for (let index = 0; index < 16; index++) yield [first + (index % 2) * 8 + Math.floor(index / 2), column];
    }
  }
}

/** Rows [N,C] in the order of a columnwise copy, which ends with zeros. */
export function columnwise(rows: Numbers, N: number, C: number): Float64Array {
  const copy = new Float64Array(C * groupsOf(N) * 16);
  let index = 0;
  for (const [row, column] of placesOf(N, C)) copy[index++] = row < N ? rows[row * C + column]! : 0;
  return copy;
}

/** A columnwise copy [C,N/16,16] as rows [N,C]. */
export function rowwise(copy: Numbers, N: number, C: number): Float64Array {
  const rows = new Float64Array(N * C);
  let index = 0;
  for (const [row, column] of placesOf(N, C)) {
    if (row < N) rows[row * C + column] = copy[index]!;
    index++;
  }
  return rows;
}

/** Values of a columnwise copy [C,groups,16] times the scales of their blocks. */
export const scaledColumnwise = (values: Numbers, scales: Numbers, groups: number): Float64Array =>
  new Float64Array(values).map(
    (value, index) => value * scales[Math.floor(((Math.floor(index / 16) % groups) * 16) / blockRows)]!,
  );

/** numberOf(row) for each row. */
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
