import { defineKernel } from 'gpt2.ts';

// 8 blocks of 256 threads are all that an SM of an H100 runs at a time, and it has 132 SMs.
// (Default values give the parameters their types: without TypeScript's syntax, every version of Node reads this card.)
const gridOf = (count = 0) => Math.min(Math.ceil(count / 256), 8 * 132);

export default [
  defineKernel({
    op: 'gelu_forward',
    source: 'gelu.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, in: x, count }) => [
      { kernel: 'gelu_forward', grid: gridOf(count), block: 256, args: [out, x, count] },
    ],
  }),
  defineKernel({
    op: 'gelu_backward',
    source: 'gelu.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ din, dout, in: x, count }) => [
      { kernel: 'gelu_backward', grid: gridOf(count), block: 256, args: [din, dout, x, count] },
    ],
  }),
];
