import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'loss_sum',
    source: 'optimizer.cu',
    launches: ({ step, losses, N, scale, accumulate }) => [
      { kernel: 'loss_sum', grid: 1, block: 1, args: [step, losses, N, scale, accumulate] },
    ],
  }),
  defineKernel({
    op: 'global_norm',
    source: 'optimizer.cu',
    // A sum of squares in double for each 4096 elements.
    scratch: ({ matrixCount, vectorCount }) => Math.ceil((matrixCount + vectorCount) / 4096) * 8,
    launches: ({ step, matrices, vectors, matrixCount, vectorCount, targets, maxNorm, scratch }) => {
      const sums = Math.ceil((matrixCount + vectorCount) / 4096);
      const args = [scratch, matrices, vectors, matrixCount, vectorCount];
      return [
        { kernel: 'square_sums', grid: Math.ceil(sums / 128), block: 128, args },
        { kernel: 'finish_norm', grid: 1, block: 1, args: [step, scratch, sums, targets, maxNorm] },
      ];
    },
  }),
  defineKernel({
    op: 'adamw',
    source: 'optimizer.cu',
    launches: ({ weight, master, m, v, gradient, step, count, firstScalar, rate, beta1, beta2, eps, weightDecay }) => {
      const args = [weight, master, m, v, gradient, step, count, firstScalar, rate, beta1, beta2, eps, weightDecay];
      return [{ kernel: 'adamw', grid: Math.ceil(count / 128), block: 128, args }];
    },
  }),
];
