import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'cross_entropy',
  source: 'cross-entropy.cu',
  launches: ({ losses, dlogits, logits, targets, N, V, Vp, dloss }) => [
    {
      kernel: 'cross_entropy',
      grid: Math.ceil(N / 64),
      block: 64,
      args: [losses, dlogits, logits, targets, N, V, Vp, dloss],
    },
  ],
});
