// Test cases of sampling at temperature 0, the choice of the largest logit. test/ops/sample.test.ts tests random choices.
import { casesOf, sizesOf } from './op-case.ts';

type Sizes = Readonly<Record<'B' | 'S' | 'V' | 'Vp', number>>;

const greedy = { temperature: 0, topK: 0, topP: 1 };

export const sampleCases = [
  casesOf('sample', {
    sizes: sizesOf('B S V Vp', '3x64x1000x1024 1x1x50257x50304', greedy),
    inputs: (_, { B, S, V }: Sizes, random) => ({
      tokens: random.integers(B * (S + 1), V),
      positions: random.integers(B, S),
    }),
    formula({ tokens, positions, logits }, { B, S, V, Vp }: Sizes) {
      const chosen = Int32Array.from(tokens);
      for (let b = 0; b < B; b++) {
        const row = Array.from(logits.subarray(b * Vp, b * Vp + V));
        chosen[b * (S + 1) + positions[b]! + 1] = row.indexOf(Math.max(...row));
      }
      return { tokens: chosen, positions: Int32Array.from(positions, (position) => position + 1) };
    },
    bounds: () => ({
      tokens: { fp32: 0, bf16: 0, measure: 'absolute' },
      positions: { fp32: 0, bf16: 0, measure: 'absolute' },
    }),
  }),
];
