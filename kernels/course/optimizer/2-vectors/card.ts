import { defineKernel } from 'gpt2.ts';

// (Default values give the parameters their types: without TypeScript's syntax, every version of Node reads this card.)
/** Blocks of 256 threads that take 4 elements at a time: 8 for each of an H100's 132 SMs, or fewer if there is less to do. */
const blocksOf = (count = 0) => Math.min(Math.ceil(count / 1024), 1056);

export default [
  defineKernel({
    op: 'loss_sum',
    source: 'optimizer.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ step, losses, N, scale, accumulate }) => [
      { kernel: 'loss_sum', grid: 1, block: 1024, args: [step, losses, N, scale, accumulate] },
    ],
  }),
  defineKernel({
    op: 'global_norm',
    source: 'optimizer.cu',
    dtypes: ['fp32', 'bf16'],
    // A sum of squares in double for each block.
    scratch: ({ matrixCount, vectorCount }) => blocksOf(matrixCount + vectorCount) * 8,
    launches: ({ step, matrices, vectors, matrixCount, vectorCount, targets, maxNorm, scratch }) => {
      const blocks = blocksOf(matrixCount + vectorCount);
      const args = [scratch, matrices, vectors, matrixCount, vectorCount];
      return [
        { kernel: 'square_sums', grid: blocks, block: 256, args },
        { kernel: 'finish_norm', grid: 1, block: 1024, args: [step, scratch, blocks, targets, maxNorm] },
      ];
    },
  }),
  defineKernel({
    op: 'adamw',
    source: 'optimizer.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ weight, master, m, v, gradient, step, count, firstScalar, rate, beta1, beta2, eps, weightDecay }) => {
      const kernel = gradient.type === 'bf16' ? 'adamw_bf16_gradient' : 'adamw';
      const args = [weight, master, m, v, gradient, step, count, firstScalar, rate, beta1, beta2, eps, weightDecay];
      return [{ kernel, grid: blocksOf(count), block: 256, args }];
    },
  }),
];
