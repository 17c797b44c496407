import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'adamw',
  source: 'adamw.cu',
  launches: ({ weight, master, m, v, gradient, step, count, firstScalar, rate, beta1, beta2, eps, weightDecay }) => [
    {
      kernel: 'adamw',
      grid: Math.ceil(count / 256),
      block: 256,
      args: [weight, master, m, v, gradient, step, count, firstScalar, rate, beta1, beta2, eps, weightDecay],
    },
  ],
});
