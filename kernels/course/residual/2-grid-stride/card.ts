import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'residual_forward',
    source: 'residual.cu',
    dtypes: ['fp32', 'bf16'],
    // 8 blocks of 256 threads are all that an SM of an H100 runs at a time, and it has 132 SMs.
    launches: ({ out, a, b, count }) => [
      {
        kernel: 'residual_forward',
        grid: Math.min(Math.ceil(count / 256), 8 * 132),
        block: 256,
        args: [out, a, b, count],
      },
    ],
  }),
];
