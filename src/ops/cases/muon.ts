import { GPT2_STEP } from '../../native/bindings.generated.ts';
import { norm, transposed } from './case-numbers.ts';
import { casesOf, sizesOf, storedInElements, storedInFp32 } from './op-case.ts';

type Sizes = Readonly<Record<'rows' | 'columns', number>>;

const [learningRate, clip] = [1e-2, 0.3];

function stepBlock(): Float32Array {
  const step = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
  step[GPT2_STEP.GPT2_STEP_LEARNING_RATE] = learningRate;
  step[GPT2_STEP.GPT2_STEP_CLIP] = clip;
  step[GPT2_STEP.GPT2_STEP_UPDATED] = 1;
  step[momentumScalars.scalar] = mu;
  return step;
}

/** Adds scalars to test sizes: wide, tall, square; whole and partial tiles; row sizes that are, or are not, a multiple of 16 bytes. */
const withScalars = (scalars: Readonly<Record<string, number>>) => ({
  sizes: sizesOf('rows columns', '256x64 64x256 1x1 1x67 67x1 37x131 131x37 200x200', scalars),
  gpuSizes: sizesOf('rows columns', '3072x768 1001x1000', scalars),
});

const mu = 0.95;
const momentumScalars = { scalar: GPT2_STEP.GPT2_STEP_SCALARS + 1 };
const updateScalars = { rate: 33, weightDecay: 0.1 };
const normalizeScalars = { margin: 1.01, eps: 1e-7 };

export const muonCases = [
  casesOf('muon_momentum', {
    ...withScalars(momentumScalars),
    inputs: () => ({ step: stepBlock() }),
    formula({ momentum, gradient }, { rows, columns }: Sizes) {
      const lerp = (value: number, at: number) => mu * value + (1 - mu) * clip * gradient[at]!;
      const updated = new Float64Array(momentum).map(lerp);
      const direction = updated.map(lerp);
      return { momentum: updated, direction: rows > columns ? transposed(direction, rows, columns) : direction };
    },
    // The direction is stored in the element type, the momentum in fp32.
    bounds: () => ({ momentum: storedInFp32, direction: storedInElements }),
  }),
  casesOf('normalize_matrices', {
    sizes: sizesOf('M R K', '3x64x256 1x1x1 5x7x143', normalizeScalars),
    gpuSizes: [{ M: 7, R: 1, K: 1_000_003, ...normalizeScalars }],
    formula({ matrices }, { R, K, margin, eps }: { R: number; K: number } & typeof normalizeScalars) {
      const count = R * K;
      const wanted = Float64Array.from(matrices);
      for (let start = 0; start < wanted.length; start += count) {
        const matrix = wanted.subarray(start, start + count);
        const divisor = margin * norm(matrix) + eps;
        for (let index = 0; index < count; index++) matrix[index]! /= divisor;
      }
      return { matrices: wanted };
    },
    bounds: () => ({ matrices: storedInElements }),
  }),
  casesOf('muon_update', {
    ...withScalars(updateScalars),
    inputs: () => ({ step: stepBlock() }),
    formula({ master, direction }, { rows, columns, rate, weightDecay }: Sizes & typeof updateScalars) {
      const turned = rows > columns ? transposed(direction, columns, rows) : direction;
      const rateOfStep = rate * learningRate;
      const scale = rateOfStep * Math.sqrt(Math.max(1, rows / columns));
      const updated = new Float64Array(master).map(
        (value, index) => value * (1 - rateOfStep * weightDecay) - scale * turned[index]!,
      );
      return { master: updated, weight: updated };
    },
    // The weight is the master weight, rounded to the element type.
    bounds: () => ({ master: storedInFp32, weight: storedInElements }),
  }),
];
