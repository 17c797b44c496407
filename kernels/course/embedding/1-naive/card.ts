import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'embedding_forward',
    source: 'embedding.cu',
    launches: ({ out, tokens, wte, wpe, B, T, C, V }) => {
      const args = [out, tokens, wte, wpe, B, T, C, V];
      return [{ kernel: 'embedding_forward', grid: Math.ceil((B * T * C) / 128), block: 128, args }];
    },
  }),
  defineKernel({
    op: 'embedding_backward',
    // Not in bf16: sums of many positions would be rounded at every step.
    source: 'embedding.cu',
    launches: ({ dwte, dwpe, dout, tokens, B, T, C, V, accumulate }) => {
      const [ofTokens, ofPositions] = [
        [dwte, dout, tokens, B * T, C, V],
        [dwpe, dout, B, T, C, accumulate],
      ];
      return [
        { kernel: 'embedding_backward_tokens', grid: Math.ceil(C / 128), block: 128, args: ofTokens },
        { kernel: 'embedding_backward_positions', grid: Math.ceil((T * C) / 128), block: 128, args: ofPositions },
      ];
    },
  }),
];
