import { held, largestOf, transposed } from './case-numbers.ts';
import { exact, largestNorm, scaled, scaleOf } from './fp8.ts';
import { casesOf, sizesOf, storedInFp32 } from './op-case.ts';

export const fp8QuantizeWeightCases = [
  casesOf('fp8_quantize_weight', {
    sizes: sizesOf('C O', '128x384 16x16 48x80 208x1600 1600x48 2064x144'),
    gpuSizes: [{ C: 32, O: 50304 }],
    scale: () => ({ weight: 0.2 }),
    formula({ weight, bias, values, transposed: turned }, { C, O }: Readonly<Record<'C' | 'O', number>>) {
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
    // The scale is a power of two and the rounding is defined, so both must be exact; norms are sums in fp32.
    bounds: () => ({ values: exact, transposed: exact, factors: storedInFp32 }),
  }),
];
