import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'loss_sum',
  source: 'sum.cu',
  launches: ({ step, losses, N, scale, accumulate }) => [
    { kernel: 'loss_sum', grid: 1, block: 256, args: [step, losses, N, scale, accumulate] },
  ],
});
