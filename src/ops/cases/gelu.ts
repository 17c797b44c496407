// Test cases of GELU in its tanh approximation, forward and backward.
import { casesOf } from './op-case.ts';

const geluScale = Math.sqrt(2 / Math.PI);
const inner = (x: number): number => Math.tanh(geluScale * (x + 0.044715 * x ** 3));

export const gelu = (x: number): number => 0.5 * x * (1 + inner(x));

export function geluDerivative(x: number): number {
  const t = inner(x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * geluScale * (1 + 3 * 0.044715 * x * x);
}

const sizes = [{ count: 4096 }, { count: 1 }, { count: 91 }, { count: 100_003 }];
// The bound for bf16 allows the GPU's tanh in one instruction, which has an error of 2^-11.
const bound = { fp32: 1e-6, bf16: 3e-3 };

export const geluCases = [
  casesOf('gelu_forward', {
    sizes,
    scale: () => ({ in: 2 }),
    formula: ({ in: x }) => ({ out: new Float64Array(x).map(gelu) }),
    bounds: () => ({ out: bound }),
  }),
  casesOf('gelu_backward', {
    sizes,
    scale: () => ({ in: 2 }),
    formula: ({ in: x, dout }) => ({
      din: new Float64Array(x).map((value, index) => geluDerivative(value) * dout[index]!),
    }),
    bounds: () => ({ din: bound }),
  }),
];
