import { casesOf } from './op-case.ts';

export const residualCases = [
  casesOf('residual_forward', {
    sizes: [{ count: 4096 }, { count: 1 }, { count: 7 }, { count: 91 }, { count: 100_003 }],
    formula: ({ a, b }) => ({ out: new Float64Array(a).map((value, index) => Math.fround(value + b[index]!)) }),
    bounds: () => ({ out: { fp32: 0, bf16: 2e-3 } }),
  }),
];
