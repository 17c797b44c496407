import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'cross_entropy',
    source: 'cross-entropy.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ losses, dlogits, logits, targets, N, V, Vp, dloss }) => {
      // A row of GPT-2's logits in bf16, half of one in fp32: two blocks run on an H100's SM at a time. With what the kernel
      // declares itself, it is below the 101,376 bytes that a block has at most on compute capability 8.6, 8.9 and 12.0.
      const kept = Math.min(Math.ceil((V * (logits.type === 'bf16' ? 2 : 4)) / 16) * 16, 100_608);
      const args = [losses, dlogits, logits, targets, V, Vp, dloss, kept];
      return [{ kernel: 'cross_entropy', grid: N, block: 1024, shared: kept, args }];
    },
  }),
];
