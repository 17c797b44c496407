import { defineKernel } from 'gpt2.ts';

// A block of 4 warps for each tile of 128 x 128 results.
const tilesOf = (lines = 0) => Math.ceil(lines / 128);
/** Bytes of two stages with two tiles of 128 lines, each of 64 k's and 8 elements that are not used. (A tile of 64 k's is smaller.) */
const shared = 2 * 2 * 128 * (64 + 8) * 2;

export default [
  defineKernel({
    op: 'matmul_forward',
    source: 'matmul.cu',
    dtypes: ['bf16'],
    launches: ({ out, in: x, weight, bias, N, C, O }) => [
      {
        kernel: 'matmul_forward',
        grid: [tilesOf(O), tilesOf(N)],
        block: 128,
        shared,
        args: [out, x, weight, bias, N, C, O],
      },
    ],
  }),
  defineKernel({
    op: 'matmul_backward_input',
    source: 'matmul.cu',
    dtypes: ['bf16'],
    launches: ({ din, dout, weight, N, C, O }) => [
      {
        kernel: 'matmul_backward_input',
        grid: [tilesOf(C), tilesOf(N)],
        block: 128,
        shared,
        args: [din, dout, weight, N, C, O],
      },
    ],
  }),
  defineKernel({
    op: 'matmul_backward_weight',
    source: 'matmul.cu',
    dtypes: ['bf16'],
    // The parts of the bias's gradient, each a sum over 256 rows.
    scratch: ({ N, O }) => Math.ceil(N / 256) * O * 4,
    launches: ({ dweight, dbias, dout, in: x, scratch, N, C, O, accumulate }) => {
      const parts = Math.ceil(N / 256);
      const ofWeight = [dweight, dout, x, N, C, O, accumulate];
      const [ofParts, ofBias] = [
        [scratch, dout, N, O],
        [dbias, scratch, parts, O, accumulate],
      ];
      if (!dbias) {
        return [
          { kernel: 'matmul_backward_weight', grid: [tilesOf(C), tilesOf(O)], block: 128, shared, args: ofWeight },
        ];
      }
      return [
        { kernel: 'matmul_backward_weight', grid: [tilesOf(C), tilesOf(O)], block: 128, shared, args: ofWeight },
        { kernel: 'matmul_bias_parts', grid: [Math.ceil(O / 32), parts], block: [32, 8], args: ofParts },
        { kernel: 'matmul_bias', grid: Math.ceil(O / 128), block: 128, args: ofBias },
      ];
    },
  }),
];
