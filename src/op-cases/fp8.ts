// Tensors in FP8 as cuda/gpt2.h defines them: scales, inputs, and cases of ops that also store their result in FP8.
import { blockRows, blocksOf, groupsOf } from '../ops/columnwise.ts';
import type { OpContract } from '../ops/contract.ts';
import { largestOf, type Numbers, type Random } from './numbers.ts';
import type { Bound, OpCases } from './op-case.ts';

/**
 * E4M3 has 3 bits of fraction: errors are uniform up to 2^-4 of a power of two, their root mean square is 2^-4 / sqrt(3), and that of
 * numbers of 1 to 2 is about 1.5: a quotient of 2.4e-2.
 */
export const e4m3Bound: Bound = { fp32: 2.7e-2, bf16: 2.7e-2 };
export const exact: Bound = { fp32: 0, bf16: 0 };

/** Standard deviation of inputs in E4M3 that use its range. */
export const e4m3Deviation = 100;

/** The smallest power of two that is at least `bound` and 2^-126. */
export function powerOfTwoFrom(bound: number): number {
  let power = 2 ** -126;
  while (power < bound) power *= 2;
  return power;
}

/** The scale of a row, or a weight, with this largest element. */
export const scaleOf = (largest: number): number => powerOfTwoFrom(largest / 448);

/** Scales of rows, so that their elements have a standard deviation of 0.4 to 1.6. */
export const drawScales = (count: number, random: Random): Float32Array =>
  Float32Array.from(random.integers(count, 3), (power) => 2 ** (power - 8));

/** Values times scales: one for each row, or one for all. */
export function scaled(values: Numbers, scales: Numbers | number): Float64Array {
  if (typeof scales === 'number') return new Float64Array(values).map((value) => value * scales);
  const width = values.length / scales.length;
  return new Float64Array(values).map((value, index) => value * scales[Math.floor(index / width)]!);
}

/** The scales of the columnwise copy of rows with these: the largest of each block. */
export const blockScales = (scales: Numbers): Float32Array =>
  Float32Array.from({ length: blocksOf(scales.length) }, (_, block) =>
    largestOf(scales.subarray(block * blockRows, (block + 1) * blockRows), 0),
  );

/** Of each element of a columnwise copy, in order, its row and column. */
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

/** The largest sum of absolute values over a row. */
export function largestRowSum(values: Numbers, width: number): number {
  let largest = 0;
  for (let first = 0; first < values.length; first += width) {
    let sum = 0;
    for (const value of values.subarray(first, first + width)) sum += Math.abs(value);
    largest = Math.max(largest, sum);
  }
  return largest;
}

/** Sizes with C rounded up to a multiple of 16. */
export const aligned = <S extends Readonly<Record<string, number>>>(sizes: S): S => ({
  ...sizes,
  C: Math.ceil(sizes.C! / 16) * 16,
});

/** Cases of an op that is `plain` and also stores its result as `values`. */
export const alsoInFp8 = (op: OpContract, plain: OpCases, result: 'out' | 'din'): OpCases => ({
  ...plain,
  op,
  sizes: plain.sizes.map(aligned),
  formula(inputs, sizes) {
    const results = plain.formula(inputs, sizes);
    return { ...results, values: results[result]! };
  },
  bounds: (...given) => ({ ...plain.bounds(...given), values: e4m3Bound }),
});
