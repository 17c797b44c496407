// Cases of RMSNorm, forward and backward.
import type { Numbers } from './case-numbers.ts';
import { alsoInFp8 } from './fp8.ts';
import { casesOf } from './op-case.ts';

type Sizes = Readonly<Record<'N' | 'C' | 'eps', number>>;

const eps = 1e-5;
const sizes = [
  { N: 128, C: 128, eps },
  { N: 7, C: 64, eps: 0.5 },
  { N: 5, C: 37, eps: 0 },
  { N: 130, C: 768, eps },
  { N: 33, C: 1600, eps },
  { N: 3, C: 2400, eps },
  { N: 3000, C: 384, eps },
];
const scale = () => ({ in: 3 });
// Sums over a row, or over all rows, are in fp32 in every dtype.
const statistic = { fp32: 1e-5, bf16: 1e-5 };

/** 1 / root of the mean square of each row of C. */
export function rootMeanSquares(x: Numbers, { N, C, eps }: Sizes): Float64Array {
  return Float64Array.from({ length: N }, (_, n) => {
    let squares = 0;
    for (const value of x.subarray(n * C, (n + 1) * C)) squares += value ** 2 / C;
    return 1 / Math.sqrt(squares + eps);
  });
}

const plain = [
  casesOf('rmsnorm_forward', {
    ...{ sizes, scale },
    formula({ in: x, weight }, size: Sizes) {
      const rstd = rootMeanSquares(x, size);
      const { C } = size;
      return { out: new Float64Array(x).map((value, i) => value * rstd[Math.floor(i / C)]! * weight[i % C]!), rstd };
    },
    bounds: () => ({ out: { fp32: 1e-6, bf16: 2e-3 }, rstd: statistic }),
  }),
  casesOf('rmsnorm_backward', {
    ...{ sizes, scale },
    inputs: ({ in: x }, size: Sizes) => ({ rstd: rootMeanSquares(x, size) }),
    formula({ in: x, weight, dout, dresidual, rstd }, { N, C }: Sizes) {
      const [din, dweight] = [new Float64Array(N * C), new Float64Array(C)];
      for (let n = 0; n < N; n++) {
        const normalized = (c: number) => x[n * C + c]! * rstd[n]!;
        let mean = 0;
        for (let c = 0; c < C; c++) {
          const d = dout[n * C + c]!;
          dweight[c]! += d * normalized(c);
          mean += (d * weight[c]! * normalized(c)) / C;
        }
        for (let c = 0; c < C; c++) {
          const through = rstd[n]! * (dout[n * C + c]! * weight[c]! - normalized(c) * mean);
          din[n * C + c] = through + (dresidual?.[n * C + c] ?? 0);
        }
      }
      return { din, dweight };
    },
    bounds: () => ({ din: { fp32: 2e-6, bf16: 2e-3 }, dweight: statistic }),
  }),
] as const;

export const rmsnormCases = [
  ...plain,
  alsoInFp8('rmsnorm_fp8_forward', plain[0], 'out'),
  alsoInFp8('rmsnorm_fp8_backward', plain[1], 'din'),
];
