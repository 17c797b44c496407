// Cards that differ in grid, block and shared memory only. Without types, as the cards.
import { defineKernel } from 'gpt2.ts';

/** The grid for a result of `rows` x `columns`: a block for each tile. */
export const tilesOf = (tile) => (rows, columns) => [Math.ceil(columns / tile), Math.ceil(rows / tile)];

/** Forward and the gradient of the input. `shape` has block and shared memory. */
export const productCards = ({ grid, forwardGrid = grid, dtypes = ['fp32', 'bf16'], ...shape }) => [
  defineKernel({
    op: 'matmul_forward',
    source: 'matmul.cu',
    dtypes,
    launches: ({ out, in: x, weight, bias, N, C, O }) => [
      { kernel: 'matmul_forward', grid: forwardGrid(N, O), ...shape, args: [out, x, weight, bias, N, C, O] },
    ],
  }),
  defineKernel({
    op: 'matmul_backward_input',
    source: 'matmul.cu',
    dtypes,
    launches: ({ din, dout, weight, N, C, O }) => [
      { kernel: 'matmul_backward_input', grid: grid(N, C), ...shape, args: [din, dout, weight, N, C, O] },
    ],
  }),
];

/** The gradients of the weight and the bias. The bias's is the sum of parts, each a sum over 256 rows. */
export const weightCard = ({ grid, dtypes = ['fp32', 'bf16'], ...shape }) =>
  defineKernel({
    op: 'matmul_backward_weight',
    source: 'matmul.cu',
    dtypes,
    scratch: ({ N, O }) => Math.ceil(N / 256) * O * 4,
    launches: ({ dweight, dbias, dout, in: x, scratch, N, C, O, accumulate }) => {
      const parts = Math.ceil(N / 256);
      const ofWeight = [dweight, dout, x, N, C, O, accumulate];
      const ofParts = [scratch, dout, N, O];
      const ofBias = [dbias, scratch, parts, O, accumulate];
      const weightLaunch = { kernel: 'matmul_backward_weight', grid: grid(O, C), ...shape, args: ofWeight };
      if (!dbias) return [weightLaunch];
      return [
        weightLaunch,
        { kernel: 'matmul_bias_parts', grid: [Math.ceil(O / 32), parts], block: [32, 8], args: ofParts },
        { kernel: 'matmul_bias', grid: Math.ceil(O / 128), block: 128, args: ofBias },
      ];
    },
  });
