import { GPT2_STEP } from '../../native/bindings.generated.ts';
import { norm, transposed } from './case-numbers.ts';
import { casesOf } from './op-case.ts';

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

// Wide, tall and square, whole tiles and parts, lines that are a multiple of 16 bytes and not.
const shapes = [
  { rows: 256, columns: 64 },
  { rows: 64, columns: 256 },
  { rows: 1, columns: 1 },
  { rows: 1, columns: 67 },
  { rows: 67, columns: 1 },
  { rows: 37, columns: 131 },
  { rows: 131, columns: 37 },
  { rows: 200, columns: 200 },
];
const gpuShapes = [
  { rows: 3072, columns: 768 },
  { rows: 1001, columns: 1000 },
];
const withAll = (sizes: readonly Sizes[], scalars: Readonly<Record<string, number>>) =>
  sizes.map((each) => ({ ...each, ...scalars }));

const mu = 0.95;
const momentumScalars = { scalar: GPT2_STEP.GPT2_STEP_SCALARS + 1 };
const updateScalars = { rate: 33, weightDecay: 0.1 };
const normalizeScalars = { margin: 1.01, eps: 1e-7 };

export const muonCases = [
  casesOf('muon_momentum', {
    sizes: withAll(shapes, momentumScalars),
    gpuSizes: withAll(gpuShapes, momentumScalars),
    inputs: () => ({ step: stepBlock() }),
    formula({ momentum, gradient }, { rows, columns }: Sizes) {
      const lerp = (value: number, at: number) => mu * value + (1 - mu) * clip * gradient[at]!;
      const updated = new Float64Array(momentum).map(lerp);
      const direction = updated.map(lerp);
      return { momentum: updated, direction: rows > columns ? transposed(direction, rows, columns) : direction };
    },
    // Directions are rounded.
    bounds: () => ({ momentum: { fp32: 1e-6, bf16: 1e-6 }, direction: { fp32: 1e-6, bf16: 2e-3 } }),
  }),
  casesOf('normalize_matrices', {
    sizes: [
      { M: 3, R: 64, K: 256, ...normalizeScalars },
      { M: 1, R: 1, K: 1, ...normalizeScalars },
      { M: 5, R: 7, K: 143, ...normalizeScalars },
    ],
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
    bounds: () => ({ matrices: { fp32: 1e-6, bf16: 2e-3 } }),
  }),
  casesOf('muon_update', {
    sizes: withAll(shapes, updateScalars),
    gpuSizes: withAll(gpuShapes, updateScalars),
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
    // Weights are rounded masters.
    bounds: () => ({ master: { fp32: 1e-6, bf16: 1e-6 }, weight: { fp32: 1e-6, bf16: 2e-3 } }),
  }),
];
