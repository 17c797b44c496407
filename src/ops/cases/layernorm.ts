// Cases of layernorm, forward and backward.
import type { Numbers } from './case-numbers.ts';
import { alsoInFp8 } from './fp8.ts';
import { casesOf } from './op-case.ts';

type Sizes = Readonly<Record<'N' | 'C', number>>;

const sizes = [
  { N: 128, C: 128 },
  { N: 7, C: 64 },
  { N: 5, C: 37 },
  { N: 130, C: 768 },
  { N: 33, C: 1600 },
  { N: 3, C: 2400 },
  { N: 3000, C: 384 },
];
/**
 * Inputs whose mean is large compared to their standard deviation, about `step`. With E[x^2] - E[x]^2 in fp32 as the variance,
 * rstd is wrong by 1e-3 and more (summed sequentially: 1e-1), with Welford's algorithm by 5e-5. bf16 holds these inputs too.
 */
const shifted = { N: 5, C: 768, center: 768, step: 4 };
const scale = () => ({ in: 3 });
// Sums over a row, or over all rows, are in fp32 in every dtype.
const statistic = { fp32: 1e-5, bf16: 1e-5 };

/** Mean and 1 / standard deviation of each row of C. */
function statistics(x: Numbers, { N, C }: Sizes): { mean: Float64Array; rstd: Float64Array } {
  const [mean, rstd] = [new Float64Array(N), new Float64Array(N)];
  for (let n = 0; n < N; n++) {
    const row = x.subarray(n * C, (n + 1) * C);
    for (const value of row) mean[n]! += value / C;
    let variance = 0;
    for (const value of row) variance += (value - mean[n]!) ** 2 / C;
    rstd[n] = 1 / Math.sqrt(variance + 1e-5);
  }
  return { mean, rstd };
}

export function normalized(x: Numbers, weight: Numbers, bias: Numbers, sizes: Sizes): Float64Array {
  const { mean, rstd } = statistics(x, sizes);
  const { C } = sizes;
  return new Float64Array(x).map((value, index) => {
    const n = Math.floor(index / C);
    return (value - mean[n]!) * rstd[n]! * weight[index % C]! + bias[index % C]!;
  });
}

function backward(inputs: Record<'in' | 'weight' | 'dout', Numbers>, dresidual: Numbers | undefined, sizes: Sizes) {
  const { in: x, weight, dout } = inputs;
  const { N, C } = sizes;
  const { mean, rstd } = statistics(x, sizes);
  const [din, dweight, dbias] = [new Float64Array(N * C), new Float64Array(C), new Float64Array(C)];
  for (let n = 0; n < N; n++) {
    const norm = (c: number) => (x[n * C + c]! - mean[n]!) * rstd[n]!;
    let [sum, normSum] = [0, 0];
    for (let c = 0; c < C; c++) {
      const d = dout[n * C + c]!;
      dweight[c]! += d * norm(c);
      dbias[c]! += d;
      sum += (d * weight[c]!) / C;
      normSum += (d * weight[c]! * norm(c)) / C;
    }
    for (let c = 0; c < C; c++) {
      const through = rstd[n]! * (dout[n * C + c]! * weight[c]! - sum - norm(c) * normSum);
      din[n * C + c] = through + (dresidual?.[n * C + c] ?? 0);
    }
  }
  return { din, dweight, dbias };
}

const plain = [
  casesOf('layernorm_forward', {
    ...{ sizes: [...sizes, shifted], scale },
    inputs: ({ in: x }, { center, step }: Partial<typeof shifted>) =>
      center && step ? { in: x.map((value) => center + step * Math.round(value / 3)) } : {},
    formula: ({ in: x, weight, bias }, size: Sizes) => ({
      out: normalized(x, weight, bias, size),
      ...statistics(x, size),
    }),
    bounds: ({ center }: Partial<typeof shifted>) => ({
      // The mean is 200 standard deviations: its rounding moves all results by 1e-5.
      out: { fp32: center ? 1e-4 : 1e-6, bf16: 2e-3 },
      mean: statistic,
      rstd: center ? { fp32: 1e-4, bf16: 1e-4 } : statistic,
    }),
  }),
  casesOf('layernorm_backward', {
    ...{ sizes, scale },
    inputs: ({ in: x }, size: Sizes) => statistics(x, size),
    formula: ({ dresidual, ...inputs }, size: Sizes) => backward(inputs, dresidual, size),
    bounds: () => ({ din: { fp32: 2e-6, bf16: 2e-3 }, dweight: statistic, dbias: statistic }),
  }),
] as const;

export const layernormCases = [
  ...plain,
  alsoInFp8('layernorm_fp8_forward', plain[0], 'out'),
  alsoInFp8('layernorm_fp8_backward', plain[1], 'din'),
];
