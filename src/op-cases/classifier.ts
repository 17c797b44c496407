// Cases of the last linear layer with its loss, forward and backward.
import { contracts } from '../ops/ops.generated.ts';
import { crossEntropy } from './cross-entropy.ts';
import { columnSums, linear, product } from './matmul.ts';
import { casesOf } from './op-case.ts';
import { softcap, softcapDerivative } from './softcap.ts';

type Sizes = {
  readonly N: number;
  readonly C: number;
  readonly V: number;
  readonly Vp: number;
  readonly dloss: number;
  /** The limit of the logits; 0: none. */
  readonly softcap: number;
  /** 0: without bias and dbias, as in GPT-2. */
  readonly biased: number;
  /** Standard deviation of the weights; the logits' grows with it. */
  readonly weightScale: number;
};

const plain = { dloss: 0.25, softcap: 0, biased: 0 };
const biased = { ...plain, biased: 1 };

export const classifierCases = [
  casesOf(contracts.classifier, {
    sizes: [
      { N: 130, C: 64, V: 1000, Vp: 1024, ...biased, weightScale: 0.3 },
      { N: 130, C: 64, V: 1000, Vp: 1024, ...plain, weightScale: 0.3 },
      { N: 5, C: 37, V: 77, Vp: 80, ...plain, weightScale: 0.3 },
      { N: 5, C: 37, V: 77, Vp: 80, ...biased, softcap: 15, weightScale: 0.3 },
      // Losses of up to 40, and of 0: a target is one of the largest or of the smallest logits.
      { N: 300, C: 128, V: 500, Vp: 512, ...plain, weightScale: 1 },
      // A fifth of the logits are over the cap.
      { N: 300, C: 128, V: 500, Vp: 512, ...biased, softcap: 15, weightScale: 1 },
      { N: 130, C: 64, V: 512, Vp: 512, ...plain, softcap: 15, weightScale: 1 },
    ],
    gpuSizes: [
      { N: 257, C: 768, V: 5000, Vp: 5120, ...plain, weightScale: 0.1 },
      // Several tiles for each SM one after the other.
      { N: 2048, C: 64, V: 2900, Vp: 2944, ...plain, weightScale: 0.3 },
      { N: 2048, C: 64, V: 2900, Vp: 2944, ...biased, softcap: 15, weightScale: 1 },
    ],
    scale: ({ weightScale }: Sizes) => ({ weight: weightScale }),
    without: ({ biased }: Sizes) => (biased ? [] : ['bias', 'dbias']),
    formula({ in: x, weight, bias, targets }, { N, C, V, Vp, dloss, softcap: cap }: Sizes) {
      const logits = linear(x, weight, bias, { N, C, O: Vp });
      const limited = cap > 0 ? logits.map((value) => softcap(value, cap)) : logits;
      const { losses, dlogits } = crossEntropy(limited, targets, { V, Vp, dloss });
      if (cap > 0) {
        for (const [index, value] of logits.entries()) dlogits[index]! *= softcapDerivative(value, cap);
      }
      return {
        losses,
        dbias: columnSums(dlogits, Vp),
        din: product(dlogits, weight, { N, K: Vp, O: C }, 'nn'),
        dweight: product(dlogits, x, { N: Vp, K: N, O: C }, 'tn'),
      };
    },
    bounds({ C, weightScale }: Sizes, { codePath, without }) {
      // Only the parts round logits to bf16: those of 32 to 64 by up to 0.125, and a loss is a difference of two.
      const needsParts = without.includes('dweight') && !without.includes('dbias');
      const isInParts = codePath === 'portable' || C % 8 !== 0 || needsParts;
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
        dbias: gradient,
      };
    },
    flops: ({ N, C, Vp }: Sizes) => 6 * N * C * Vp,
  }),
];
