import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'gelu_backward',
  source: 'gelu.cu',
  launches: ({ din, dout, in: x, count }) => [
    { kernel: 'gelu_backward', grid: 8, block: 256, args: [din, dout, x, count] },
  ],
});
