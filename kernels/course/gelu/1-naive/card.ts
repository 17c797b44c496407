import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'gelu_forward',
    source: 'gelu.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, in: x, count }) => [
      { kernel: 'gelu_forward', grid: Math.ceil(count / 256), block: 256, args: [out, x, count] },
    ],
  }),
  defineKernel({
    op: 'gelu_backward',
    source: 'gelu.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ din, dout, in: x, count }) => [
      { kernel: 'gelu_backward', grid: Math.ceil(count / 256), block: 256, args: [din, dout, x, count] },
    ],
  }),
];
