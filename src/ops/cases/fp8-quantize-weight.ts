import { held, largestOf, transposed } from './case-numbers.ts';
import { exact, largestNorm, scaled, scaleOf } from './fp8.ts';
import { casesOf } from './op-case.ts';

type Sizes = Readonly<Record<'C' | 'O', number>>;

export const fp8QuantizeWeightCases = [
  casesOf('fp8_quantize_weight', {
    sizes: [
      { C: 128, O: 384 },
      { C: 16, O: 16 },
      { C: 48, O: 80 },
      { C: 208, O: 1600 },
      { C: 1600, O: 48 },
      { C: 2064, O: 144 },
    ],
    gpuSizes: [{ C: 32, O: 50304 }],
    scale: () => ({ weight: 0.2 }),
    formula({ weight, bias, values, transposed: turned }, { C, O }: Sizes) {
      const scale = scaleOf(largestOf(weight, 0));
      const rounded = scaled(held('fp8', scaled(weight, 1 / scale)), scale);
      const columns = transposed(rounded, O, C);
      const norms = [values ? largestNorm(rounded, C) : 0, turned ? largestNorm(columns, O) : 0];
      return {
        values: rounded,
        transposed: columns,
        factors: Float64Array.of(scale, ...norms, bias ? largestOf(bias) : 0),
      };
    },
    // The scale and the rounding are exact; only norms are sums.
    bounds: () => ({ values: exact, transposed: exact, factors: { fp32: 1e-6, bf16: 1e-6 } }),
  }),
];
