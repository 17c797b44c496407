// Cases of the softcap, a smooth limit of logits.
import { casesOf } from './op-case.ts';

export const softcap = (x: number, cap: number): number => (cap * x) / Math.hypot(x, cap);

/** d/dx of softcap(x, cap) */
export const softcapDerivative = (x: number, cap: number): number => (cap / Math.hypot(x, cap)) ** 3;

export const softcapCases = [
  casesOf('softcap_forward', {
    sizes: [
      { count: 4096, cap: 15 },
      { count: 1, cap: 15 },
      { count: 91, cap: 0.5 },
      { count: 100_003, cap: 30 },
    ],
    scale: () => ({ in: 20 }),
    formula: ({ in: x }, { cap }: { cap: number }) => ({
      out: new Float64Array(x).map((value) => softcap(value, cap)),
    }),
    bounds: () => ({ out: { fp32: 1e-6, bf16: 2e-3 } }),
  }),
];
