import { GPT2_STEP } from '../../native/bindings.generated.ts';
import { casesOf, storedInElements, storedInFp32 } from './op-case.ts';

const [learningRate, beta1Correction, beta2Correction, clip] = [1e-2, 0.1, 0.05, 0.3];
const scalars = { rate: 1, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 };

export const adamwCases = [
  casesOf('adamw', {
    sizes: [
      { count: 100_003, firstScalar: GPT2_STEP.GPT2_STEP_SCALARS, ...scalars },
      { count: 1, firstScalar: GPT2_STEP.GPT2_STEP_TARGETS - 2, ...scalars },
      { count: 999, firstScalar: GPT2_STEP.GPT2_STEP_SCALARS, ...scalars, rate: 0.3 },
    ],
    scale: () => ({ m: 0.1, v: 0.1 }),
    inputs({ v }, { firstScalar }) {
      const step = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
      step[GPT2_STEP.GPT2_STEP_LEARNING_RATE] = learningRate;
      step.set([beta1Correction, beta2Correction], firstScalar);
      step[GPT2_STEP.GPT2_STEP_CLIP] = clip;
      step[GPT2_STEP.GPT2_STEP_UPDATED] = 1;
      return { step, v: Float32Array.from(v, Math.abs) };
    },
    formula({ master, m, v, gradient }, { rate, beta1, beta2, eps, weightDecay }: typeof scalars) {
      const first = new Float64Array(m).map((value, index) => beta1 * value + (1 - beta1) * clip * gradient[index]!);
      const second = new Float64Array(v).map(
        (value, index) => beta2 * value + (1 - beta2) * (clip * gradient[index]!) ** 2,
      );
      const updated = new Float64Array(master).map((value, index) => {
        const step = first[index]! / beta1Correction / (Math.sqrt(second[index]! / beta2Correction) + eps);
        return value - rate * learningRate * (step + weightDecay * value);
      });
      return { m: first, v: second, master: updated, weight: updated };
    },
    // The weight is the master weight, rounded to the element type.
    bounds: () => ({ m: storedInFp32, v: storedInFp32, master: storedInFp32, weight: storedInElements }),
  }),
];
