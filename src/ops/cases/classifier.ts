// Test cases of the classifier: the last linear layer with cross-entropy, forward and backward.
import { GPT2_STEP } from '../../native/bindings.generated.ts';
import { type Numbers, transposed } from './case-numbers.ts';
import { crossEntropy } from './cross-entropy.ts';
import { aligned, drawScales, e4m3Deviation, exact, scaled } from './fp8.ts';
import { columnSums, linear, product } from './matmul.ts';
import { type Bound, casesOf, type Environment } from './op-case.ts';
import { softcap, softcapDerivative } from './softcap.ts';

type Sizes = {
  readonly N: number;
  readonly C: number;
  readonly V: number;
  readonly Vp: number;
  readonly dloss: number;
  /** Limit of the logits' absolute values; 0 for none. */
  readonly softcap: number;
  /** 1 with bias and dbias; 0 without, as in GPT-2. */
  readonly biased: number;
  /** Standard deviation of the weights. The standard deviation of the logits is proportional to it. */
  readonly weightScale: number;
};

const plain = { dloss: 0.25, softcap: 0, biased: 0 };
const biased = { ...plain, biased: 1 };

const sizes = [
  { N: 130, C: 64, V: 1000, Vp: 1024, ...biased, weightScale: 0.3 },
  { N: 130, C: 64, V: 1000, Vp: 1024, ...plain, weightScale: 0.3 },
  { N: 5, C: 37, V: 77, Vp: 80, ...plain, weightScale: 0.3 },
  { N: 5, C: 37, V: 77, Vp: 80, ...biased, softcap: 15, weightScale: 0.3 },
  // Large logits give losses from 0 to 40, because a target's logit may be among the largest or the smallest.
  { N: 300, C: 128, V: 500, Vp: 512, ...plain, weightScale: 1 },
  // A fifth of the logits exceed the softcap of 15.
  { N: 300, C: 128, V: 500, Vp: 512, ...biased, softcap: 15, weightScale: 1 },
  { N: 130, C: 64, V: 512, Vp: 512, ...plain, softcap: 15, weightScale: 1 },
  // Several blocks of 512 rows, and only 40 ids, so that many rows have the same target.
  { N: 1100, C: 48, V: 40, Vp: 48, ...biased, softcap: 15, weightScale: 0.3 },
];
const gpuSizes = [
  { N: 257, C: 768, V: 5000, Vp: 5120, ...plain, weightScale: 0.1 },
  // Each SM computes several tiles one after the other.
  { N: 2048, C: 64, V: 2900, Vp: 2944, ...plain, weightScale: 0.3 },
  { N: 2048, C: 64, V: 2900, Vp: 2944, ...biased, softcap: 15, weightScale: 1 },
];
const without = ({ biased }: Sizes): ('bias' | 'dbias')[] => (biased ? [] : ['bias', 'dbias']);
const flops = ({ N, C, Vp }: Sizes): number => 6 * N * C * Vp;

function computed(
  { in: x, weight, bias, targets }: Record<'in' | 'weight' | 'bias' | 'targets', Numbers>,
  { N, C, V, Vp, dloss, softcap: cap }: Sizes,
) {
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
}

/**
 * Whether the op runs as separate kernels, which store logits in bf16; the fused kernels do not round logits. Rounding a number
 * between 32 and 64 to bf16 changes it by up to 0.125, and a loss is the difference of two numbers of this size.
 */
function isInParts({ C }: Sizes, { codePath, without }: Environment): boolean {
  const needsParts = without.includes('dweight') && !without.includes('dbias');
  return codePath === 'portable' || C % 8 !== 0 || needsParts;
}

/**
 * The largest accepted error of a loss in tf32, which cuts inputs to 10 bits of mantissa. On an H200 the largest error was 0.001 of
 * the logits' standard deviation; four times as much is accepted.
 */
const lossBound = ({ C, weightScale }: Sizes): number => 4e-3 * weightScale * Math.sqrt(C);
/** The accepted relative error of gradients in tf32. It grows with the logits, because the rounding errors of the logits do. */
const gradientBound = ({ weightScale }: Sizes): number => 3e-2 * weightScale + 1e-3;

/**
 * The accepted relative error of gradients that are sums over dlogits in E5M2. Rounding changes each dlogit, except the target's, by
 * 4.7% (root mean square). On a CPU the gradients' error was 0.2 to 1.2%, and 2.5% for the sizes whose logits differ most.
 */
const e5m2Bound = ({ weightScale, softcap }: Sizes): number => (weightScale === 1 && softcap === 0 ? 3e-2 : 1.5e-2);

const boundsOf = (losses: Omit<Bound, 'measure'>, gradient: Bound) => ({
  losses: { ...losses, measure: 'absolute' as const },
  ...{ din: gradient, dweight: gradient, dbias: gradient },
});

export const classifierCases = [
  casesOf('classifier', {
    ...{ sizes, gpuSizes, without, flops },
    scale: ({ weightScale }: Sizes) => ({ weight: weightScale }),
    formula: computed,
    bounds(size: Sizes, environment) {
      const inParts = isInParts(size, environment);
      return boundsOf(
        { fp32: 1e-4, tf32: lossBound(size), bf16: inParts ? 0.25 : 1e-4 },
        { fp32: 1e-5, tf32: gradientBound(size), bf16: inParts ? 2e-2 : 3e-3 },
      );
    },
  }),
  casesOf('classifier.fp8', {
    ...{ sizes: sizes.map(aligned), gpuSizes, without, flops },
    scale: ({ weightScale }: Sizes) => ({
      weight: weightScale,
      inValues: e4m3Deviation,
      weightValues: e4m3Deviation,
    }),
    inputs: ({ inValues, weightValues }, { N, C, Vp, weightScale }: Sizes, random) => {
      // Inputs with a standard deviation of at most 0.8 in a row keep losses below 77, the limit of the GPU's sums of exponentials.
      const inScale = drawScales(N, random).map((scale) => scale / 2);
      const factor = 2 ** Math.floor(Math.log2(weightScale / e4m3Deviation));
      return {
        ...{ inScale, in: scaled(inValues, inScale), factors: Float32Array.of(factor, 0, 0, 0) },
        ...{ weight: scaled(weightValues, factor), weightTransposed: transposed(weightValues, Vp, C) },
        step: new Float32Array(GPT2_STEP.GPT2_STEP_SIZE),
      };
    },
    // `step` stays unchanged, because the gradient of no row saturates.
    formula: ({ step, ...inputs }, size: Sizes) => ({ ...computed(inputs, size), step }),
    // Uses the bounds of tf32, because Hopper sums FP8 matmuls with about as many bits of mantissa as tf32 has.
    bounds(size: Sizes, environment) {
      const inParts = isInParts(size, environment);
      return {
        ...boundsOf(
          { fp32: 1e-4, bf16: inParts ? 0.25 : lossBound(size) },
          { fp32: e5m2Bound(size), bf16: e5m2Bound(size) + (inParts ? 2e-2 : gradientBound(size)) },
        ),
        step: exact,
      };
    },
  }),
];
