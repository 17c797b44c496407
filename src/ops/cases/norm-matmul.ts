import type { Numbers } from './case-numbers.ts';
import { gelu } from './gelu.ts';
import { flops, linear, productBound, type Sizes, throughGelu } from './matmul.ts';
import { normalized } from './norm.ts';
import { type Bound, casesOf, sizesOf } from './op-case.ts';

const sizes = sizesOf('N C O', '4x128x384 1x768x776 33x64x72');
const scale = () => ({ weight: 0.2 });
// The bound for bf16 allows the op to round the layernorm's output before the matmul, as two separate ops would.
const bound = ({ C, O }: Sizes): Bound => ({ ...productBound(Math.max(C, O)), bf16: 4e-3 });

type Inputs = Record<'in' | 'normWeight' | 'normBias' | 'weight' | 'bias', Numbers>;
const result = ({ in: x, normWeight, normBias, weight, bias }: Inputs, size: Sizes): Float64Array =>
  linear(normalized(x, normWeight, normBias, { ...size, eps: 1e-5 }), weight, bias, size);

export const normMatmulCases = [
  casesOf('norm_matmul_forward', {
    ...{ sizes, scale, flops },
    formula: (inputs, size: Sizes) => ({ out: result(inputs, size) }),
    bounds: (size: Sizes) => ({ out: bound(size) }),
  }),
  casesOf('norm_matmul_forward.gelu', {
    ...{ sizes, scale, flops },
    formula(inputs, size: Sizes) {
      const pre = result(inputs, size);
      return { pre, out: pre.map(gelu) };
    },
    bounds: (size: Sizes) => ({ pre: bound(size), out: { ...throughGelu(bound(size)), bf16: 5e-3 } }),
  }),
];
