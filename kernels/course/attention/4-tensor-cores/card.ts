import { defineKernel, Gpt2Error } from 'gpt2.ts';

/** Widths of tiles, for which there are kernels: a head is filled up with zeros. */
const widths = [64, 128];
const widthOf = (HS = 0) => {
  const found = widths.find((width) => width >= HS);
  if (found === undefined) throw new Gpt2Error(`attention/4-tensor-cores takes heads of up to 128 elements, not ${HS}`);
  return found;
};
/** Lines of the other side that a block multiplies at a time. */
const othersOf = (width = 0) => (width === 64 ? 64 : 32);
/** Bytes of `own` tiles of 64 lines, and of two stages with two tiles of the other side; 8 elements of each line are not used. */
const bytesOf = (own = 0, width = 0) => (own * 64 + 4 * othersOf(width)) * (width + 8) * 2;

export default [
  defineKernel({
    op: 'attention_forward',
    source: 'forward.cu',
    dtypes: ['bf16'],
    instantiate: widths.map((width) => `attention_forward<${width}>`),
    launches: ({ out, lse, qkv, B, T, C, NH }) => {
      const width = widthOf(C / NH);
      return [
        {
          kernel: `attention_forward<${width}>`,
          grid: [B * NH, Math.ceil(T / 64)],
          block: 128,
          shared: bytesOf(1, width),
          args: [out, lse, qkv, T, NH, C / NH],
        },
      ];
    },
  }),
  defineKernel({
    op: 'attention_backward',
    source: 'backward.cu',
    dtypes: ['bf16'],
    instantiate: widths.flatMap((each) => [`attention_backward_queries<${each}>`, `attention_backward_keys<${each}>`]),
    // D, a number for each query.
    scratch: ({ B, T, NH }) => B * NH * T * 4,
    launches: ({ dqkv, dout, out, qkv, lse, scratch, B, T, C, NH }) => {
      const width = widthOf(C / NH);
      // lse and D of the other side's queries, in both stages.
      const shared = bytesOf(2, width) + 4 * othersOf(width) * 4;
      return [
        {
          kernel: `attention_backward_queries<${width}>`,
          grid: [B * NH, Math.ceil(T / 64)],
          block: 128,
          shared,
          args: [dqkv, scratch, dout, out, qkv, lse, T, NH, C / NH],
        },
        {
          kernel: `attention_backward_keys<${width}>`,
          grid: [B * NH, Math.ceil(T / 64)],
          block: 128,
          shared,
          args: [dqkv, scratch, dout, qkv, lse, T, NH, C / NH],
        },
      ];
    },
  }),
];
