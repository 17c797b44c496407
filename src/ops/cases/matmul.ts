import { type OpName, variantNamed } from '../variants.ts';
import type { Numbers } from './case-numbers.ts';
import { geluCases } from './gelu.ts';
import { type Bound, casesOf, formulaOf, type OpCases, sizesOf, sumInFp32 } from './op-case.ts';
import { residualCases } from './residual.ts';

export type Sizes = Readonly<Record<'N' | 'C' | 'O', number>>;

/** A matmul with result [N,O]. By `layout`, the shapes of a and b: nt [N,K], [O,K]; nn [N,K], [K,O]; tn [K,N], [K,O]; t: transposed. */
export function product(
  a: Numbers,
  b: Numbers,
  { N, K, O }: { N: number; K: number; O: number },
  layout: 'nt' | 'nn' | 'tn',
): Float64Array {
  const [left, right] = [lines(a, N, K, layout === 'tn'), lines(b, O, K, layout !== 'nt')];
  const out = new Float64Array(N * O);
  const store = (n: number, o: number, sum: number) => {
    if (n < N && o < O) out[n * O + o] = sum;
  };
  // Computes 2 x 2 elements at a time, which takes 0.4 of the time of one element at a time.
  for (let n = 0; n < N; n += 2) {
    for (let o = 0; o < O; o += 2) {
      let [s00, s01, s10, s11] = [0, 0, 0, 0];
      for (let k = 0; k < K; k++) {
        const x0 = left[n * K + k]!;
        const x1 = left[(n + 1) * K + k]!;
        const y0 = right[o * K + k]!;
        const y1 = right[(o + 1) * K + k]!;
        s00 += x0 * y0;
        s01 += x0 * y1;
        s10 += x1 * y0;
        s11 += x1 * y1;
      }
      store(n, o, s00);
      store(n, o + 1, s01);
      store(n + 1, o, s10);
      store(n + 1, o + 1, s11);
    }
  }
  return out;
}

/** Copies `values` [count,K], or [K,count] if `isTurned`, to [count + 1,K]. The last row is padding for an odd count, and not used. */
const lines = (values: Numbers, count: number, K: number, isTurned: boolean): Float64Array =>
  new Float64Array((count + 1) * K).map((_, i) => values[isTurned ? (i % K) * count + Math.floor(i / K) : i] ?? 0);

/** in [N,C] times weight [O,C] transposed, plus the bias if there is one. */
export function linear(input: Numbers, weight: Numbers, bias: Numbers | undefined, { N, C, O }: Sizes): Float64Array {
  return product(input, weight, { N, K: C, O }, 'nt').map((value, index) => value + (bias?.[index % O] ?? 0));
}

// Aligned and unaligned sizes, one tile and several, sums that are shorter and longer than a tile, sums over many rows, and sums of
// more than 384 terms, which the CPU library splits.
const sizes = sizesOf('N C O', '128x128x384 1x64x72 7x37x24 64x80x320 129x72x200 257x384x136 13x392x72');
const gpuSizes = sizesOf('N C O', '1000x768x776 4097x128x64 2x64x50304');
const scale = () => ({ weight: 0.2 });
export const flops = ({ N, C, O }: Sizes): number => 2 * N * C * O;

/** Accepted relative error of a matmul that sums `terms` terms in fp32; tf32 rounds inputs to 10 bits of mantissa. */
export const productBound = (terms: number): Bound => ({
  fp32: 1e-6 * Math.sqrt(terms) + 2e-7,
  tf32: 1e-3,
  bf16: 2e-3,
});
export const bound = ({ N, C, O }: Sizes): Bound => productBound(Math.max(N, C, O));
/** The bound of a matmul with GELU. In bf16, GPUs compute tanh by one instruction, with an error of 2^-11. */
export const throughGelu = (plain: Bound): Bound => ({ ...plain, fp32: plain.fp32 * 2, bf16: 3e-3 });

/** The bound of a matmul with the squared ReLU: in fp32 twice the plain bound, because squaring doubles the relative error. */
const squared = (plain: Bound): Bound => ({ fp32: plain.fp32 * 2, tf32: 2e-3, bf16: 3e-3 });

const forward = casesOf('matmul_forward', {
  ...{ sizes, gpuSizes, scale, flops },
  formula: ({ in: x, weight, bias }, size: Sizes) => ({ out: linear(x, weight, bias, size) }),
  bounds: (size: Sizes) => ({ out: bound(size) }),
});
const backwardInput = casesOf('matmul_backward_input', {
  ...{ sizes, gpuSizes, scale, flops },
  formula: ({ dout, weight }, { N, C, O }: Sizes) => ({ din: product(dout, weight, { N, K: O, O: C }, 'nn') }),
  bounds: (size: Sizes) => ({ din: bound(size) }),
});
const fused = (op: OpName, bounds: OpCases['bounds']): OpCases => {
  const formula = formulaOf(op, [forward, backwardInput, ...geluCases, ...residualCases]);
  return { ...forward, variant: variantNamed(op), formula, bounds };
};

export const matmulCases = [
  forward,
  fused('matmul_forward.gelu', (size: Sizes) => ({ pre: bound(size), out: throughGelu(bound(size)) })),
  casesOf('matmul_forward.relu_squared', {
    ...{ sizes, gpuSizes, scale, flops },
    formula: ({ in: x, weight, bias }, size: Sizes) => ({
      out: linear(x, weight, bias, size).map((value) => Math.max(value, 0) ** 2),
    }),
    bounds: (size: Sizes) => ({ out: squared(bound(size)) }),
  }),
  fused('matmul_forward.residual', (size: Sizes) => ({ out: bound(size) })),
  backwardInput,
  fused('matmul_backward_input.gelu', (size: Sizes) => ({ din: throughGelu(bound(size)) })),
  casesOf('matmul_backward_input.relu_squared', {
    ...{ sizes, gpuSizes, scale, flops },
    inputs: ({ activated }) => ({ activated: activated.map((value) => Math.max(value, 0)) }),
    formula: ({ dout, weight, activated }, { N, C, O }: Sizes) => ({
      din: product(dout, weight, { N, K: O, O: C }, 'nn').map(
        (value, index) => value * 2 * Math.sqrt(activated[index]!),
      ),
    }),
    bounds: (size: Sizes) => ({ din: bound(size) }),
  }),
  casesOf('matmul_backward_weight', {
    ...{ sizes, gpuSizes, flops },
    formula: ({ dout, in: x }, { N, C, O }: Sizes) => ({
      dweight: product(dout, x, { N: O, K: N, O: C }, 'tn'),
      dbias: columnSums(dout, O),
    }),
    bounds: (size: Sizes) => ({ dweight: bound(size), dbias: sumInFp32 }),
  }),
];

export function columnSums(values: Numbers, width: number): Float64Array {
  const sums = new Float64Array(width);
  for (let index = 0; index < values.length; index++) sums[index % width]! += values[index]!;
  return sums;
}
