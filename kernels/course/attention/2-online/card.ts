import { defineKernel, Gpt2Error } from 'gpt2.ts';

/** Elements of a head that a lane has, for which there are kernels. */
const parts = [1, 2, 4, 8];
const partsOf = (HS = 0) => {
  const found = parts.find((each) => 32 * each >= HS);
  if (found === undefined) throw new Gpt2Error(`attention/2-online takes heads of up to 256 elements, not ${HS}`);
  return found;
};

export default [
  defineKernel({
    op: 'attention_forward',
    source: 'attention.cu',
    dtypes: ['fp32', 'bf16'],
    instantiate: parts.map((each) => `attention_forward<${each}>`),
    launches: ({ out, lse, qkv, B, T, C, NH }) => {
      const [rows, HS] = [B * NH * T, C / NH];
      const args = [out, lse, qkv, rows, T, NH, HS];
      return [{ kernel: `attention_forward<${partsOf(HS)}>`, grid: Math.ceil(rows / 8), block: 256, args }];
    },
  }),
  defineKernel({
    op: 'attention_backward',
    source: 'attention.cu',
    dtypes: ['fp32', 'bf16'],
    instantiate: parts.flatMap((each) => [`attention_backward_queries<${each}>`, `attention_backward_keys<${each}>`]),
    // D, a number for each query.
    scratch: ({ B, T, NH }) => B * NH * T * 4,
    launches: ({ dqkv, dout, out, qkv, lse, scratch, B, T, C, NH }) => {
      const [rows, HS] = [B * NH * T, C / NH];
      const [each, grid] = [partsOf(HS), Math.ceil(rows / 8)];
      const [ofQueries, ofKeys] = [
        [dqkv, scratch, dout, out, qkv, lse, rows, T, NH, HS],
        [dqkv, scratch, dout, qkv, lse, rows, T, NH, HS],
      ];
      return [
        { kernel: `attention_backward_queries<${each}>`, grid, block: 256, args: ofQueries },
        { kernel: `attention_backward_keys<${each}>`, grid, block: 256, args: ofKeys },
      ];
    },
  }),
];
