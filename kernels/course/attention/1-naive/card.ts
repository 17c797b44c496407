import { defineKernel } from 'gpt2.ts';

export default [
  defineKernel({
    op: 'attention_forward',
    source: 'attention.cu',
    dtypes: ['fp32', 'bf16'],
    // The scores, in fp32.
    scratch: ({ B, T, NH }) => B * NH * T * T * 4,
    launches: ({ out, lse, qkv, scratch, B, T, C, NH }) => {
      const [rows, HS] = [B * NH * T, C / NH];
      const [scores, values] = [
        [scratch, qkv, B, T, NH, HS],
        [out, scratch, qkv, T, NH, HS],
      ];
      return [
        { kernel: 'attention_scores', grid: [Math.ceil(T / 128), T, B * NH], block: 128, args: scores },
        { kernel: 'attention_softmax', grid: Math.ceil(rows / 128), block: 128, args: [scratch, lse, rows, T] },
        { kernel: 'attention_values', grid: rows, block: HS, args: values },
      ];
    },
  }),
  defineKernel({
    op: 'attention_backward',
    source: 'attention.cu',
    dtypes: ['fp32', 'bf16'],
    // The probabilities, then the gradients of the scores.
    scratch: ({ B, T, NH }) => 2 * B * NH * T * T * 4,
    launches: ({ dqkv, dout, out, qkv, lse, scratch, B, T, C, NH }) => {
      const [rows, HS] = [B * NH * T, C / NH];
      const count = rows * T;
      const [probabilities, softmax, inputs] = [
        [scratch, count, dout, qkv, lse, T, NH, HS],
        [scratch, count, dout, out, rows, T, NH, HS],
        [dqkv, scratch, count, dout, qkv, T, NH, HS],
      ];
      return [
        {
          kernel: 'attention_backward_probabilities',
          grid: [Math.ceil(T / 128), T, B * NH],
          block: 128,
          args: probabilities,
        },
        { kernel: 'attention_backward_softmax', grid: Math.ceil(rows / 128), block: 128, args: softmax },
        { kernel: 'attention_backward_inputs', grid: rows, block: HS, args: inputs },
      ];
    },
  }),
];
