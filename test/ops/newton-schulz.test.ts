// The iterations of Muon, step by step on a device: what they make of the singular values of a matrix.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { product } from '../../src/ops/cases/matmul.ts';
import { sizesOf } from '../../src/ops/cases/op-case.ts';
import { type IterationName, iterations } from '../../src/optimizer/newton-schulz.ts';
import { describeBackends } from '../support/backends.ts';
import { singularValues } from '../support/singular-values.ts';
import { TensorBench } from '../support/tensors.ts';

const M = 2;

/** M matrices [R,K] whose singular values are shares of the norm between 0.003 and 0.5. */
function matrices(R: number, K: number): Float32Array {
  const random = new Random(R + K);
  /** The identity and a little of everything else, so that no singular value is close to 0. */
  const nearIdentity = (columns: number) =>
    random
      .normals(R * columns, 0.3 / Math.sqrt(columns))
      .map((value, at) => value + (at % (columns + 1) === 0 ? 1 : 0));
  const all = Array.from({ length: M }, () => {
    const shrinking = nearIdentity(R).map((value, at) => value * 10 ** (-(1.5 * (at % R)) / R));
    return [...product(shrinking, nearIdentity(K), { N: R, K: R, O: K }, 'nn')];
  });
  return Float32Array.from(all.flat());
}

/** Where the sources have the singular values afterwards: arXiv 2505.16932 figure 1, Jordan 2024; cubic converges to 1. */
const ranges: Record<IterationName, readonly [number, number]> = {
  'polar-express': [0.86, 1.13],
  quintic: [0.68, 1.205],
  cubic: [0.995, 1.005],
};

describeBackends(
  'newton-schulz',
  (device, _, dtype) => {
    it.each(
      sizesOf('R K', '40x40 40x104 37x61').flatMap(({ R, K }) =>
        Object.entries(iterations).map(([name, iteration]) => [R, K, name, iteration] as const),
      ),
    )('brings the singular values of %i x %i to those of its polynomials: %s', (R, K, name, { steps, margin }) => {
      using bench = new TensorBench(device());
      const count = R * K;
      const values = matrices(R, K);
      const sizes = { M, R, K, margin, eps: 1e-7 };
      let { matrices: now } = bench.call('normalize_matrices', sizes, { matrices: values });
      for (const [a, b, c] of steps) now = bench.call('newton_schulz', { M, R, K, a, b, c }, { in: now }).out;
      const results = floats(now);
      // The steps with rounding to bf16 and tf32 emulated in double, on 180 such matrices: at most 0.006 and 0.001 outside the
      // range, and 0.056 and 0.037 from the polynomials.
      const isBf16 = device().elementType === 'bf16';
      const [slack, error] = isBf16 ? [0.012, 0.1] : dtype === 'tf32' ? [0.005, 0.07] : [1e-4, 1e-4];
      const [least, most] = ranges[name as IterationName];
      for (let index = 0; index < M; index++) {
        const part = <T extends Float32Array>(all: T) => all.subarray(index * count, (index + 1) * count);
        const before = singularValues(part(values), R);
        const norm = margin * Math.sqrt(before.reduce((sum, value) => sum + value ** 2, 0));
        expect(before[0]! / norm, 'the smallest is in the range of the sources').toBeGreaterThan(0.003);
        const wanted = before
          .map((value) => steps.reduce((x, [a, b, c]) => a * x + b * x ** 3 + c * x ** 5, value / norm))
          .sort((a, b) => a - b);
        const found = singularValues(part(results), R);
        expect(found[0]).toBeGreaterThan(least - slack);
        expect(found.at(-1)).toBeLessThan(most + slack);
        const differences = found.map((value, i) => Math.abs(value - wanted[i]!));
        expect(Math.max(...differences)).toBeLessThan(error);
      }
    });
  },
  { dtypes: ['fp32', 'tf32', 'bf16'] },
);
