// Test cases of the softcap, a smooth limit of logits.
import { casesOf, sizesOf, storedInElements } from './op-case.ts';

export const softcap = (x: number, cap: number): number => (cap * x) / Math.hypot(x, cap);

/** The derivative with respect to x of the softcap, cap x / sqrt(x^2 + cap^2). (Gemma's softcap is cap tanh(x / cap).) */
export const softcapDerivative = (x: number, cap: number): number => (cap / Math.hypot(x, cap)) ** 3;

export const softcapCases = [
  casesOf('softcap_forward', {
    sizes: sizesOf('count cap', '4096x15 1x15 91x0.5 100003x30'),
    scale: () => ({ in: 20 }),
    formula: ({ in: x }, { cap }: { cap: number }) => ({
      out: new Float64Array(x).map((value) => softcap(value, cap)),
    }),
    bounds: () => ({ out: storedInElements }),
  }),
];
