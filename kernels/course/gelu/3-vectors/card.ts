import { defineKernel } from 'gpt2.ts';

// A thread for every 16 bytes.
// (Default values give the parameters their types: without TypeScript's syntax, every version of Node reads this card.)
const gridOf = (count = 0, type = 'fp32') => Math.ceil(count / (type === 'bf16' ? 8 : 4) / 256);

export default [
  defineKernel({
    op: 'gelu_forward',
    source: 'gelu.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, in: x, count }) => [
      { kernel: 'gelu_forward', grid: gridOf(count, x.type), block: 256, args: [out, x, count] },
    ],
  }),
  defineKernel({
    op: 'gelu_backward',
    source: 'gelu.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ din, dout, in: x, count }) => [
      { kernel: 'gelu_backward', grid: gridOf(count, x.type), block: 256, args: [din, dout, x, count] },
    ],
  }),
];
