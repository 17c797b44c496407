import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'residual_forward',
  source: 'add.cu',
  launches: ({ out, a, b, count }) => [
    { kernel: 'add', grid: Math.ceil(count / 1024), block: 256, args: [out, a, b, count] },
  ],
});
