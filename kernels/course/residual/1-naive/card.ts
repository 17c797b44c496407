import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'residual_forward',
    source: 'residual.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, a, b, count }) => [
      { kernel: 'residual_forward', grid: Math.ceil(count / 256), block: 256, args: [out, a, b, count] },
    ],
  }),
];
