import { GPT2_STEP } from '../../native/bindings.generated.ts';
import { norm } from './case-numbers.ts';
import { casesOf } from './op-case.ts';

export const globalNormCases = [
  casesOf('global_norm', {
    sizes: [
      { parts: 1, matrixCount: 100_003, vectorCount: 77, targets: 24, maxNorm: 1 },
      { parts: 1, matrixCount: 1, vectorCount: 1, targets: 16, maxNorm: 100 },
      { parts: 1, matrixCount: 1_000_003, vectorCount: 16_385, targets: 16, maxNorm: 0 },
    ],
    inputs() {
      const step = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
      step[GPT2_STEP.GPT2_STEP_LOSS] = 3;
      step[GPT2_STEP.GPT2_STEP_TARGETS] = 16;
      step[GPT2_STEP.GPT2_STEP_LOSS_LIMIT] = 1e9;
      step[GPT2_STEP.GPT2_STEP_NORM_LIMIT] = 1e9;
      return { step };
    },
    formula({ step, matrices, vectors }, { targets, maxNorm }: { targets: number; maxNorm: number }) {
      const factor = targets / 16;
      const total = factor * Math.hypot(norm(matrices), norm(vectors));
      const block = Float64Array.from(step);
      block[GPT2_STEP.GPT2_STEP_LOSS]! *= factor;
      block[GPT2_STEP.GPT2_STEP_NORM] = total;
      block[GPT2_STEP.GPT2_STEP_CLIP] = factor * (maxNorm > 0 && total > maxNorm ? maxNorm / total : 1);
      block[GPT2_STEP.GPT2_STEP_UPDATED] = 1;
      // The op does not change the limits. They are rounded to fp32, as in the tensor.
      return { step: block.map((value) => (value === 1e9 ? Math.fround(1e9) : value)) };
    },
    // The error is absolute because the step block holds several quantities. One of them is the norm, which is up to 1000.
    bounds: () => ({ step: { fp32: 2e-4, bf16: 2e-4, measure: 'absolute' } }),
  }),
];
