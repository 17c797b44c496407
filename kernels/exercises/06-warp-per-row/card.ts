import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'layernorm_forward',
  source: 'layernorm.cu',
  launches: ({ out, mean, rstd, in: x, weight, bias, N, C }) => [
    { kernel: 'layernorm_forward', grid: N, block: 32, args: [out, mean, rstd, x, weight, bias, C] },
  ],
});
