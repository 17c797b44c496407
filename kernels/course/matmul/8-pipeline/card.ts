import { defineKernel } from 'gpt2.ts';
import { productCards } from '../launches.mjs';

/** Tiles of 128 x 128 results; the kernels choose their order. */
const grid = (rows = 0, columns = 0) => Math.ceil(rows / 128) * Math.ceil(columns / 128);
// A block of 4 warps for each tile. Its shared memory has three stages with two tiles of 128 lines, each of 64 k's.
const [block, shared] = [128, 3 * 2 * 128 * 64 * 2];

/**
 * Parts of N for the gradient of the weight, so that the 264 blocks that run at a time on an H100 have enough to do. The time, in steps of
 * a block: waves of blocks, each with its steps and 6 more to begin and to end, and the products that are written and read once more.
 */
const partsOf = (N = 0, C = 0, O = 0) => {
  const steps = Math.ceil(N / 64);
  const timeOf = (parts = 1) => {
    const waves = Math.ceil((grid(O, C) * parts) / 264);
    return waves * (Math.ceil(steps / parts) + 6) + (parts > 1 ? (parts * O * C) / 300_000 : 0);
  };
  let best = 1;
  for (let parts = 2; parts <= Math.min(steps, 32); parts++) best = timeOf(parts) < timeOf(best) ? parts : best;
  // Every part has at least one step.
  return Math.ceil(steps / Math.ceil(steps / best));
};

export default [
  ...productCards({ grid, block, shared, dtypes: ['bf16'] }),
  defineKernel({
    op: 'matmul_backward_weight',
    source: 'matmul.cu',
    dtypes: ['bf16'],
    scratch: ({ N, C, O }) => {
      const parts = partsOf(N, C, O);
      return 4 * parts * O * (parts > 1 ? 1 + C : 1);
    },
    launches: ({ dweight, dbias, dout, in: x, scratch, N, C, O, accumulate }) => {
      const parts = partsOf(N, C, O);
      const args = [dweight, scratch, dout, x, N, C, O, parts, accumulate, dbias !== null];
      const ofParts = [dweight, scratch, C, O, parts, accumulate];
      const ofBias = [dbias, scratch, parts, O, accumulate];
      return [
        { kernel: 'matmul_backward_weight', grid: [grid(O, C), 1, parts], block, shared, args },
        ...(parts > 1
          ? [{ kernel: 'matmul_add_parts', grid: Math.ceil((O * C) / 256), block: 256, args: ofParts }]
          : []),
        ...(dbias ? [{ kernel: 'matmul_bias', grid: Math.ceil(O / 128), block: 128, args: ofBias }] : []),
      ];
    },
  }),
];
