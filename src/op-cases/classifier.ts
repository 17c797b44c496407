// Cases of the last linear layer with its loss, forward and backward.
import { contracts } from '../ops/ops.generated.ts';
import { crossEntropy } from './cross-entropy.ts';
import { product } from './matmul.ts';
import { casesOf } from './op-case.ts';

type Sizes = {
  readonly N: number;
  readonly C: number;
  readonly V: number;
  readonly Vp: number;
  readonly dloss: number;
  /** Standard deviation of the weights; the logits' grows with it. */
  readonly weightScale: number;
};

const dloss = 0.25;

export const classifierCases = [
  casesOf(contracts.classifier, {
    sizes: [
      { N: 130, C: 64, V: 1000, Vp: 1024, dloss, weightScale: 0.3 },
      { N: 5, C: 37, V: 77, Vp: 80, dloss, weightScale: 0.3 },
      // Losses of up to 40, and of 0: a target is one of the largest or of the smallest logits.
      { N: 300, C: 128, V: 500, Vp: 512, dloss, weightScale: 1 },
    ],
    gpuSizes: [
      { N: 257, C: 768, V: 5000, Vp: 5120, dloss, weightScale: 0.1 },
      // Several tiles for each SM one after the other.
      { N: 2048, C: 64, V: 2900, Vp: 2944, dloss, weightScale: 0.3 },
    ],
    scale: ({ weightScale }: Sizes) => ({ weight: weightScale }),
    formula({ in: x, weight, targets }, { N, C, V, Vp }: Sizes) {
      const logits = product(x, weight, { N, K: C, O: Vp }, 'nt');
      const { losses, dlogits } = crossEntropy(logits, targets, { V, Vp, dloss });
      return {
        losses,
        din: product(dlogits, weight, { N, K: Vp, O: C }, 'nn'),
        dweight: product(dlogits, x, { N: Vp, K: N, O: C }, 'tn'),
      };
    },
    bounds({ C, weightScale }: Sizes, { codePath }) {
      // Only the parts round logits to bf16: those of 32 to 64 by up to 0.125, and a loss is a difference of two.
      const isInParts = codePath === 'portable' || C % 8 !== 0;
      // Rounded logits are off by as much as the scores are large.
      // tf32 cuts inputs to 10 bits of mantissa: the largest error of a loss was a thousandth of the logits' standard deviation
      // on an H200; four times that is accepted.
      const gradient = { fp32: 1e-5, tf32: 3e-2 * weightScale + 1e-3, bf16: isInParts ? 2e-2 : 3e-3 };
      return {
        losses: {
          fp32: 1e-4,
          tf32: 4e-3 * weightScale * Math.sqrt(C),
          bf16: isInParts ? 0.25 : 1e-4,
          measure: 'absolute',
        },
        din: gradient,
        dweight: gradient,
      };
    },
    flops: ({ N, C, Vp }: Sizes) => 6 * N * C * Vp,
  }),
];
