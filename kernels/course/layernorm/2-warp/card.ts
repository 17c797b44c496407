import { defineKernel } from 'gpt2.ts';

const warps = 8; // of a block, as in the source
// Enough slices that the blocks, each of 32 columns of one, fill a GPU.
// (Default values give the parameters their types: without TypeScript's syntax, every version of Node reads this card.)
const slicesOf = (N = 0) => Math.min(32, Math.ceil(N / 32));

export default [
  defineKernel({
    op: 'norm_forward.layernorm',
    source: 'layernorm.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, mean, rstd, in: x, weight, bias, N, C, eps }) => {
      const args = [out, mean, rstd, x, weight, bias, N, C, eps];
      return [{ kernel: 'layernorm_forward', grid: Math.ceil(N / warps), block: 32 * warps, args }];
    },
  }),
  defineKernel({
    op: 'norm_backward.layernorm',
    source: 'layernorm.cu',
    dtypes: ['fp32', 'bf16'],
    // Two sums of each column, for each slice.
    scratch: ({ N, C }) => slicesOf(N) * 2 * C * 4,
    launches: ({ din, dweight, dbias, dout, dresidual, in: x, weight, mean, rstd, N, C, accumulate, scratch }) => {
      const slices = slicesOf(N);
      const ofSlices = [scratch, dout, x, mean, rstd, N, C, Math.ceil(N / slices)];
      const ofParameters = [dweight, dbias, scratch, C, slices, accumulate];
      const ofInput = [din, dout, dresidual, x, weight, mean, rstd, N, C];
      return [
        { kernel: 'layernorm_sum_slices', grid: [Math.ceil(C / 32), slices], block: [32, warps], args: ofSlices },
        { kernel: 'layernorm_add_slices', grid: Math.ceil(C / 128), block: 128, args: ofParameters },
        { kernel: 'layernorm_backward_input', grid: Math.ceil(N / warps), block: 32 * warps, args: ofInput },
      ];
    },
  }),
];
