// Cases of the linear layer in three directions, with GELU and residual.
import type { OpContract } from '../contract.ts';
import { contracts } from '../ops.generated.ts';
import type { Numbers } from './case-numbers.ts';
import { geluCases } from './gelu.ts';
import { type Bound, casesOf, formulaOf } from './op-case.ts';
import { residualCases } from './residual.ts';

type Sizes = Readonly<Record<'N' | 'C' | 'O', number>>;

/** [N,O]: with `layout` nt a [N,K] times b [O,K] transposed, nn a [N,K] times b [K,O], tn a [K,N] transposed times b [K,O]. */
export function product(
  a: Numbers,
  b: Numbers,
  { N, K, O }: { N: number; K: number; O: number },
  layout: 'nt' | 'nn' | 'tn',
): Float64Array {
  const out = new Float64Array(N * O);
  if (layout === 'nt') {
    for (let n = 0; n < N; n++) {
      for (let o = 0; o < O; o++) {
        let sum = 0;
        for (let k = 0; k < K; k++) sum += a[n * K + k]! * b[o * K + k]!;
        out[n * O + o] = sum;
      }
    }
    return out;
  }
  for (let n = 0; n < N; n++) {
    for (let k = 0; k < K; k++) {
      const value = layout === 'nn' ? a[n * K + k]! : a[k * N + n]!;
      for (let o = 0; o < O; o++) out[n * O + o]! += value * b[k * O + o]!;
    }
  }
  return out;
}

/** in [N,C] times weight [O,C] transposed, plus the bias if there is one. */
export function linear(input: Numbers, weight: Numbers, bias: Numbers | undefined, { N, C, O }: Sizes): Float64Array {
  return product(input, weight, { N, K: C, O }, 'nt').map((value, index) => value + (bias?.[index % O] ?? 0));
}

// Aligned and not, one tile and several, fewer and more steps of k than a tile, sums over many rows, more than the 384 terms that
// the CPU library sums at a time.
const sizes = [
  { N: 128, C: 128, O: 384 },
  { N: 1, C: 64, O: 72 },
  { N: 7, C: 37, O: 24 },
  { N: 64, C: 80, O: 320 },
  { N: 129, C: 72, O: 200 },
  { N: 257, C: 384, O: 136 },
  { N: 13, C: 392, O: 72 },
];
const gpuSizes = [
  { N: 1000, C: 768, O: 776 },
  { N: 4097, C: 128, O: 64 },
  { N: 2, C: 64, O: 50304 },
];
const scale = () => ({ weight: 0.2 });
const flops = ({ N, C, O }: Sizes): number => 2 * N * C * O;

/** Error of fp32 sums of this many terms; tf32 rounds inputs to 10 bits of mantissa. */
export const productBound = (terms: number): Bound => ({
  fp32: 1e-6 * Math.sqrt(terms) + 2e-7,
  tf32: 1e-3,
  bf16: 2e-3,
});
const bound = ({ N, C, O }: Sizes): Bound => productBound(Math.max(N, C, O));
/** The bound of a matmul with GELU. GPUs compute tanh in one instruction, with an error of 2^-11. */
export const throughGelu = (plain: Bound): Bound => ({ ...plain, fp32: plain.fp32 * 2, bf16: 3e-3 });

/** The bound of a matmul with the squared ReLU: squaring doubles the relative error. */
const squared = (plain: Bound): Bound => ({ fp32: plain.fp32 * 2, tf32: 2e-3, bf16: 3e-3 });

const forward = casesOf(contracts.matmulForward, {
  ...{ sizes, gpuSizes, scale, flops },
  formula: ({ in: x, weight, bias }, size: Sizes) => ({ out: linear(x, weight, bias, size) }),
  bounds: (size: Sizes) => ({ out: bound(size) }),
});
const backwardInput = casesOf(contracts.matmulBackwardInput, {
  ...{ sizes, gpuSizes, scale, flops },
  formula: ({ dout, weight }, { N, C, O }: Sizes) => ({ din: product(dout, weight, { N, K: O, O: C }, 'nn') }),
  bounds: (size: Sizes) => ({ din: bound(size) }),
});
const fusedFormula = (op: OpContract) => formulaOf(op, [forward, backwardInput, ...geluCases, ...residualCases]);

export const matmulCases = [
  forward,
  casesOf(contracts.matmulGeluForward, {
    ...{ sizes, gpuSizes, scale, flops },
    formula: fusedFormula(contracts.matmulGeluForward),
    bounds: (size: Sizes) => ({ pre: bound(size), out: throughGelu(bound(size)) }),
  }),
  casesOf(contracts.matmulReluSquaredForward, {
    ...{ sizes, gpuSizes, scale, flops },
    formula: ({ in: x, weight, bias }, size: Sizes) => ({
      out: linear(x, weight, bias, size).map((value) => Math.max(value, 0) ** 2),
    }),
    bounds: (size: Sizes) => ({ out: squared(bound(size)) }),
  }),
  casesOf(contracts.matmulResidualForward, {
    ...{ sizes, gpuSizes, scale, flops },
    formula: fusedFormula(contracts.matmulResidualForward),
    bounds: (size: Sizes) => ({ out: bound(size) }),
  }),
  backwardInput,
  casesOf(contracts.matmulGeluBackwardInput, {
    ...{ sizes, gpuSizes, scale, flops },
    formula: fusedFormula(contracts.matmulGeluBackwardInput),
    bounds: (size: Sizes) => ({ din: throughGelu(bound(size)) }),
  }),
  casesOf(contracts.matmulReluSquaredBackwardInput, {
    ...{ sizes, gpuSizes, scale, flops },
    inputs: ({ activated }) => ({ activated: activated.map((value) => Math.max(value, 0)) }),
    formula: ({ dout, weight, activated }, { N, C, O }: Sizes) => ({
      din: product(dout, weight, { N, K: O, O: C }, 'nn').map(
        (value, index) => value * 2 * Math.sqrt(activated[index]!),
      ),
    }),
    bounds: (size: Sizes) => ({ din: bound(size) }),
  }),
  casesOf(contracts.matmulBackwardWeight, {
    ...{ sizes, gpuSizes, flops },
    formula: ({ dout, in: x }, { N, C, O }: Sizes) => ({
      dweight: product(dout, x, { N: O, K: N, O: C }, 'tn'),
      dbias: columnSums(dout, O),
    }),
    bounds: (size: Sizes) => ({ dweight: bound(size), dbias: { fp32: 1e-5, bf16: 1e-5 } }),
  }),
];

/** The sum of each of `width` columns. */
export function columnSums(values: Numbers, width: number): Float64Array {
  const sums = new Float64Array(width);
  for (let index = 0; index < values.length; index++) sums[index % width]! += values[index]!;
  return sums;
}
