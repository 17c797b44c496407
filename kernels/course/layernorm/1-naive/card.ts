import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'norm_forward.layernorm',
    source: 'layernorm.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, mean, rstd, in: x, weight, bias, N, C, eps }) => {
      const args = [out, mean, rstd, x, weight, bias, N, C, eps];
      return [{ kernel: 'layernorm_forward', grid: Math.ceil(N / 128), block: 128, args }];
    },
  }),
  defineKernel({
    op: 'norm_backward.layernorm',
    source: 'layernorm.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ din, dweight, dbias, dout, dresidual, in: x, weight, mean, rstd, N, C, accumulate }) => {
      const [ofParameters, ofInput] = [
        [dweight, dbias, dout, x, mean, rstd, N, C, accumulate],
        [din, dout, dresidual, x, weight, mean, rstd, N, C],
      ];
      return [
        { kernel: 'layernorm_backward_parameters', grid: Math.ceil(C / 128), block: 128, args: ofParameters },
        { kernel: 'layernorm_backward_input', grid: Math.ceil(N / 128), block: 128, args: ofInput },
      ];
    },
  }),
];
