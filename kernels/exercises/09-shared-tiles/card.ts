import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'matmul_forward',
  source: 'matmul.cu',
  launches: ({ out, in: x, weight, bias, N, C, O }) => [
    {
      kernel: 'matmul_forward',
      grid: [Math.ceil(O / 16), Math.ceil(N / 16)],
      block: [16, 16],
      args: [out, x, weight, bias, N, C, O],
    },
  ],
});
