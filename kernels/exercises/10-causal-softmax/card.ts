import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'attention_forward',
  source: 'attention.cu',
  launches: ({ out, lse, qkv, B, T, C, NH }) => [
    { kernel: 'attention_forward', grid: B * NH * T, block: 32, args: [out, lse, qkv, T, NH, C / NH] },
  ],
});
