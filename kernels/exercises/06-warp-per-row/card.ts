import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'norm_forward.layernorm',
  source: 'layernorm.cu',
  launches: ({ out, mean, rstd, in: x, weight, bias, N, C, eps }) => [
    { kernel: 'layernorm_forward', grid: N, block: 32, args: [out, mean, rstd, x, weight, bias, C, eps] },
  ],
});
