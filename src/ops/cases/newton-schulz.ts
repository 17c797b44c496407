import type { Numbers } from './case-numbers.ts';
import { product, productBound } from './matmul.ts';
import { type Bound, casesOf, sizesOf } from './op-case.ts';

type Step = Readonly<Record<'a' | 'b' | 'c', number>>;
type Sizes = Readonly<Record<'M' | 'R' | 'K', number>> & Step;

/** A Newton-Schulz step on one matrix X [R,K]: a X + (b A + c A A) X with A = X X^T. */
function stepOf(x: Numbers, R: number, K: number, { a, b, c }: Step): Float64Array {
  const gram = product(x, x, { N: R, K, O: R }, 'nt');
  const squared = product(gram, gram, { N: R, K: R, O: R }, 'nn');
  const polynomial = squared.map((value, index) => b * gram[index]! + c * value);
  return product(polynomial, x, { N: R, K: R, O: K }, 'nn').map((value, index) => a * x[index]! + value);
}

// Narayana numbers. For a random normal X [R,K], the mean trace of (X X^T)^k is a polynomial in R and K; row k - 1 has its coefficients.
const narayana = [[1], [1, 1], [1, 3, 1], [1, 6, 6, 1], [1, 10, 20, 10, 1]];

/**
 * The relative error of a step a X + B X, with B = b A + c A A and A = X X^T, as a multiple of u, the relative error of one rounding or
 * one matmul. For normal X, rounding B adds an error of u |B| |X| / sqrt(R), because B's columns have random directions. Rounding A
 * changes B by b dA + c (A dA + dA A), at most (|b| + 2 |c|) |dA|, because the norm of A is about 1. The errors are taken as
 * independent.
 */
function amplification({ R, K, a, b, c }: Sizes): number {
  const scale = scaleOf({ R, K });
  const trace = (k: number): number =>
    narayana[k - 1]!.reduce((sum, times, r) => sum + times * R ** (r + 1) * K ** (k - r), 0) * scale ** (2 * k);
  const polynomial = b ** 2 * trace(2) + 2 * b * c * trace(3) + c ** 2 * trace(4);
  const out =
    a ** 2 * trace(1) +
    2 * a * b * trace(2) +
    (b ** 2 + 2 * a * c) * trace(3) +
    2 * b * c * trace(4) +
    c ** 2 * trace(5);
  const roundings = polynomial + (Math.abs(b) + 2 * Math.abs(c)) ** 2 * trace(2);
  return Math.sqrt(1 + (roundings * trace(1)) / R / out);
}

/** The standard deviation of a random matrix [R,K] whose largest singular value is about 1, as the iteration needs. */
const scaleOf = ({ R, K }: { R: number; K: number }): number => 1 / (Math.sqrt(R) + Math.sqrt(K));

const quintic = { a: 3.4445, b: -4.775, c: 2.0315 };
const cubic = { a: 2, b: -1.5, c: 0.5 };
// Aligned and unaligned, square and wide matrices, of one tile and of several.
const sizes = [
  ...sizesOf('M R K', '2x128x192 1x1x1 3x5x19 1x136x264', quintic),
  ...sizesOf('M R K', '2x37x41 2x64x64', cubic),
];
// The last size of each list is for Hopper's kernel: more tiles than run at a time, and a last column of tiles that is over half full.
const gpuSizes = [
  ...sizesOf('M R K', '3x384x384 3x72x4104 140x72x72', quintic),
  ...sizesOf('M R K', '2x264x1032 1x456x520', cubic),
];

export const newtonSchulzCases = [
  casesOf('newton_schulz', {
    sizes,
    gpuSizes,
    isFp32OnCpu: true,
    scale: (size: Readonly<Record<string, number>>) => ({ in: scaleOf(size as Sizes) }),
    formula({ in: x }, { R, K, ...step }: Sizes) {
      const count = R * K;
      const matrices = Array.from({ length: x.length / count }, (_, index) =>
        stepOf(x.subarray(index * count, (index + 1) * count), R, K, step),
      );
      return { out: Float64Array.from(matrices.flatMap((each) => [...each])) };
    },
    bounds(size: Sizes): { out: Bound } {
      const factor = amplification(size);
      const { fp32, tf32, bf16 } = productBound(size.K);
      return { out: { fp32: factor * fp32, tf32: factor * tf32!, bf16: factor * bf16 } };
    },
    // Two of the three matmuls have symmetric results, of which only half is computed.
    flops: ({ M, R, K }: Sizes) => M * R * R * (3 * K + R),
  }),
];
