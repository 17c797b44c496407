import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'residual_forward',
    source: 'residual.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, a, b, count }) => {
      // A thread for every 16 bytes.
      const packs = count / (a.type === 'bf16' ? 8 : 4);
      return [{ kernel: 'residual_forward', grid: Math.ceil(packs / 256), block: 256, args: [out, a, b, count] }];
    },
  }),
];
