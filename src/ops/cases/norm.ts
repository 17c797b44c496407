import { variantNamed } from '../variants.ts';
import type { Numbers } from './case-numbers.ts';
import { aligned, e4m3Bound, normBound, perRow } from './fp8.ts';
import { casesOf, type OpCases, sizesOf, sumInFp32 } from './op-case.ts';

type Norm = 'layernorm' | 'rmsnorm';
type Sizes = Readonly<Record<'N' | 'C' | 'eps', number>>;

const eps = 1e-5;
const sizes = [
  ...sizesOf('N C', '128x128 130x768 33x1600 3x2400 3000x384', { eps }),
  ...sizesOf('N C eps', '7x64x0.5 5x37x0'),
];
/**
 * Inputs with a large mean, `center`, and a small standard deviation, about `step`. The variance as E[x^2] - E[x]^2 in fp32 would make
 * rstd wrong by 1e-3 or more (1e-1 if summed sequentially); Welford's algorithm makes an error of 5e-5. bf16 represents the inputs.
 */
const shifted = { N: 5, C: 768, eps, center: 768, step: 4 };
const scale = () => ({ in: 3 });
// The bound of mean, rstd, and gradients of weights and biases: in every dtype these are sums in fp32 over a row or over all rows.
const statistic = sumInFp32;

/** For each row of C elements, mean and 1 / standard deviation; for RMSNorm 0 and 1 / root mean square. */
function statistics(norm: Norm, x: Numbers, { N, C, eps }: Sizes): Record<'mean' | 'rstd', Float64Array> {
  const [mean, rstd] = [new Float64Array(N), new Float64Array(N)];
  for (let n = 0; n < N; n++) {
    const row = x.subarray(n * C, (n + 1) * C);
    if (norm === 'layernorm') for (const value of row) mean[n]! += value / C;
    let variance = 0;
    for (const value of row) variance += (value - mean[n]!) ** 2 / C;
    rstd[n] = 1 / Math.sqrt(variance + eps);
  }
  return { mean, rstd };
}

/** The norm of each row, times `weight` and plus `bias`. @param bias undefined for RMSNorm */
export function normalized(x: Numbers, weight: Numbers, bias: Numbers | undefined, sizes: Sizes): Float64Array {
  const { mean, rstd } = statistics(bias ? 'layernorm' : 'rmsnorm', x, sizes);
  const { C } = sizes;
  return new Float64Array(x).map((value, index) => {
    const n = Math.floor(index / C);
    return (value - mean[n]!) * rstd[n]! * weight[index % C]! + (bias?.[index % C] ?? 0);
  });
}

type Inputs = Readonly<Record<'in' | 'weight' | 'dout' | 'rstd', Numbers>>;

/** The norm's gradients; `dresidual` is added to `din`. @param mean undefined for RMSNorm */
function backward(inputs: Inputs, mean: Numbers | undefined, dresidual: Numbers | undefined, { N, C }: Sizes) {
  const { in: x, weight, dout, rstd } = inputs;
  const [din, dweight, dbias] = [new Float64Array(N * C), new Float64Array(C), new Float64Array(C)];
  for (let n = 0; n < N; n++) {
    const norm = (c: number) => (x[n * C + c]! - (mean?.[n] ?? 0)) * rstd[n]!;
    let [sum, normSum] = [0, 0];
    for (let c = 0; c < C; c++) {
      const d = dout[n * C + c]!;
      dweight[c]! += d * norm(c);
      dbias[c]! += d;
      if (mean) sum += (d * weight[c]!) / C;
      normSum += (d * weight[c]! * norm(c)) / C;
    }
    for (let c = 0; c < C; c++) {
      const through = rstd[n]! * (dout[n * C + c]! * weight[c]! - sum - norm(c) * normSum);
      din[n * C + c] = through + (dresidual?.[n * C + c] ?? 0);
    }
  }
  return { din, dweight, dbias };
}

/** The cases of an op's variant that also stores its result in FP8, with an upper bound of each row's L2 norm. */
export const inFp8 = (plain: OpCases, result: 'out' | 'din', name = `${plain.variant.name}_fp8`): OpCases => ({
  ...plain,
  variant: variantNamed(name),
  sizes: plain.sizes.map(aligned),
  formula(inputs, sizes) {
    const results = plain.formula(inputs, sizes);
    const rows = results[result]!;
    return { ...results, values: rows, norm: perRow(rows, sizes.C!, normBound) };
  },
  bounds: (...args) => {
    const bounds = plain.bounds(...args);
    return { ...bounds, values: e4m3Bound, norm: bounds[result]! };
  },
});

export const normCases = (['layernorm', 'rmsnorm'] as const).flatMap((norm) => {
  const forward = casesOf(`norm_forward.${norm}`, {
    ...{ sizes: [...sizes, shifted], scale },
    inputs: ({ in: x }, { center, step }: Partial<typeof shifted>) =>
      center && step ? { in: x.map((value) => center + step * Math.round(value / 3)) } : {},
    formula: ({ in: x, weight, bias }, size: Sizes) => ({
      out: normalized(x, weight, bias, size),
      ...statistics(norm, x, size),
    }),
    bounds: ({ center }: Partial<typeof shifted>) => ({
      // With a mean of 200 standard deviations, rounding the mean to fp32 moves all results by 1e-5.
      out: { fp32: center ? 1e-4 : 1e-6, bf16: 2e-3 },
      mean: statistic,
      rstd: center ? { fp32: 1e-4, bf16: 1e-4 } : statistic,
    }),
  });
  const ofGradients = casesOf(`norm_backward.${norm}`, {
    ...{ sizes, scale },
    inputs: ({ in: x }, size: Sizes) => statistics(norm, x, size),
    formula: ({ mean, dresidual, ...inputs }, size: Sizes) => backward(inputs, mean, dresidual, size),
    bounds: () => ({ din: { fp32: 2e-6, bf16: 2e-3 }, dweight: statistic, dbias: statistic }),
  });
  return [forward, ofGradients, inFp8(forward, 'out'), inFp8(ofGradients, 'din')];
});
