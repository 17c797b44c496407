import { GPT2_STEP } from '../../native/bindings.generated.ts';
import type { Numbers } from './case-numbers.ts';
import { casesOf, sizesOf } from './op-case.ts';

/**
 * The reference: the loss of each row of logits, and `dloss` times its gradient. Both are 0 where the target is -1. A row has Vp logits,
 * of which the last Vp - V are padding.
 */
export function crossEntropy(
  logits: Numbers,
  targets: Numbers,
  { V, Vp, dloss }: { V: number; Vp: number; dloss: number },
) {
  const N = targets.length;
  const losses = new Float64Array(N);
  const dlogits = new Float64Array(N * Vp);
  for (let n = 0; n < N; n++) {
    if (targets[n] === -1) continue;
    const row = logits.subarray(n * Vp, n * Vp + V);
    let largest = Number.NEGATIVE_INFINITY;
    for (const value of row) largest = Math.max(largest, value);
    let sum = 0;
    for (const value of row) sum += Math.exp(value - largest);
    losses[n] = largest + Math.log(sum) - row[targets[n]!]!;
    for (let v = 0; v < V; v++) {
      dlogits[n * Vp + v] = (Math.exp(row[v]! - largest) / sum - (v === targets[n] ? 1 : 0)) * dloss;
    }
  }
  return { losses, dlogits };
}

export const crossEntropyCases = [
  casesOf('cross_entropy', {
    sizes: sizesOf('N V Vp', '9x53x64 4x50257x50304 3x1001x1001', { dloss: 0.25 }),
    scale: () => ({ logits: 4 }),
    formula: ({ logits, targets }, sizes: { V: number; Vp: number; dloss: number }) =>
      crossEntropy(logits, targets, sizes),
    bounds: () => ({
      losses: { fp32: 1e-5, bf16: 1e-5, measure: 'absolute' },
      dlogits: { fp32: 1e-5, bf16: 2e-3 },
    }),
  }),
  casesOf('loss_sum', {
    sizes: [
      { N: 1000, scale: 1e-3 },
      { N: 1, scale: 1 },
      { N: 65_537, scale: 1e-5 },
    ],
    formula({ step, losses }, { scale, accumulate }: { scale: number; accumulate: number }) {
      const block = Float64Array.from(step);
      const before = accumulate ? block[GPT2_STEP.GPT2_STEP_LOSS]! : 0;
      block[GPT2_STEP.GPT2_STEP_LOSS] = before + scale * Array.from(losses).reduce((sum, loss) => sum + loss, 0);
      return { step: block };
    },
    bounds: () => ({ step: { fp32: 1e-6, bf16: 1e-6, measure: 'absolute' } }),
  }),
];
