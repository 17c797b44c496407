import { defineKernel } from 'gpt2.ts';

// (Default values give the parameters their types: without TypeScript's syntax, every version of Node reads this card.)
/** Bytes of C elements, up to a multiple of 16. */
const rowBytes = (C = 0, type = 'fp32') => Math.ceil((C * (type === 'bf16' ? 2 : 4)) / 16) * 16;
/** Warps of a block: as many as fit a third of an SM's shared memory, at most 8. Three blocks run on an SM at a time. */
const warpsOf = (bytes = 0) => Math.min(8, Math.max(1, Math.floor(74_000 / bytes)));
/** Blocks of backward: three on each of an H100's 132 SMs, and each has the sums of its rows. */
const mostBlocks = 3 * 132;

export default [
  defineKernel({
    op: 'norm_forward.layernorm',
    source: 'forward.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, mean, rstd, in: x, weight, bias, N, C, eps }) => {
      const bytes = rowBytes(C, x.type);
      const warps = Math.min(4, warpsOf(bytes));
      const args = [out, mean, rstd, x, weight, bias, N, C, eps, bytes];
      return [
        { kernel: 'layernorm_forward', grid: Math.ceil(N / warps), block: 32 * warps, shared: warps * bytes, args },
      ];
    },
  }),
  defineKernel({
    op: 'norm_backward.layernorm',
    source: 'backward.cu',
    dtypes: ['fp32', 'bf16'],
    // Two sums of each column, for each block.
    scratch: ({ N, C }) => Math.min(mostBlocks, N) * 2 * C * 4,
    launches: ({ din, dweight, dbias, dout, dresidual, in: x, weight, mean, rstd, N, C, accumulate, scratch }) => {
      const bytes = rowBytes(2 * C, 'fp32') + 2 * rowBytes(C, x.type);
      const warps = warpsOf(bytes);
      const blocks = Math.min(mostBlocks, Math.ceil(N / warps));
      const ofRows = [din, scratch, dout, dresidual, x, weight, mean, rstd, N, C, bytes];
      const ofParameters = [dweight, dbias, scratch, C, blocks, accumulate];
      return [
        { kernel: 'layernorm_backward', grid: blocks, block: 32 * warps, shared: warps * bytes, args: ofRows },
        { kernel: 'layernorm_add_partials', grid: Math.ceil(C / 16), block: [32, 32], args: ofParameters },
      ];
    },
  }),
];
