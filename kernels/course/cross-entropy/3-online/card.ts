import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'cross_entropy',
    source: 'cross-entropy.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ losses, dlogits, logits, targets, N, V, Vp, dloss }) => {
      const args = [losses, dlogits, logits, targets, N, V, Vp, dloss];
      return [{ kernel: 'cross_entropy', grid: N, block: 256, args }];
    },
  }),
];
