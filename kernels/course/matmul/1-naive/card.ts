import { defineKernel } from 'gpt2.ts';

// A thread for each element of the result, in blocks of 16 x 16: columns are x, rows are y.
export default [
  defineKernel({
    op: 'matmul_forward',
    source: 'matmul.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, in: x, weight, bias, N, C, O }) => [
      {
        kernel: 'matmul_forward',
        grid: [Math.ceil(O / 16), Math.ceil(N / 16)],
        block: [16, 16],
        args: [out, x, weight, bias, N, C, O],
      },
    ],
  }),
  defineKernel({
    op: 'matmul_backward_input',
    source: 'matmul.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ din, dout, weight, N, C, O }) => [
      {
        kernel: 'matmul_backward_input',
        grid: [Math.ceil(C / 16), Math.ceil(N / 16)],
        block: [16, 16],
        args: [din, dout, weight, N, C, O],
      },
    ],
  }),
  defineKernel({
    op: 'matmul_backward_weight',
    source: 'matmul.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ dweight, dbias, dout, in: x, N, C, O, accumulate }) => {
      const ofBias = [dbias, dout, N, O, accumulate];
      return [
        {
          kernel: 'matmul_backward_weight',
          grid: [Math.ceil(C / 16), Math.ceil(O / 16)],
          block: [16, 16],
          args: [dweight, dout, x, N, C, O, accumulate],
        },
        ...(dbias ? [{ kernel: 'matmul_backward_bias', grid: Math.ceil(O / 128), block: 128, args: ofBias }] : []),
      ];
    },
  }),
];
