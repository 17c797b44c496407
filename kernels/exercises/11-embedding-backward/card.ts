import { defineKernel } from 'gpt2.ts';

export default defineKernel({
  op: 'embedding_backward',
  source: 'embedding.cu',
  launches: ({ dwte, dwpe, dout, tokens, B, T, C, V, accumulate }) => [
    { kernel: 'of_tokens', grid: Math.ceil(C / 64), block: 64, args: [dwte, dout, tokens, B * T, C, V] },
    { kernel: 'of_positions', grid: Math.ceil((T * C) / 64), block: 64, args: [dwpe, dout, B, T, C, accumulate] },
  ],
});
