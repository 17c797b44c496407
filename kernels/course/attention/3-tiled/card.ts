import { defineKernel, Gpt2Error } from 'gpt2.ts';

/** Widths of tiles, for which there are kernels: a head is filled up with zeros. */
const widths = [64, 128];
const widthOf = (HS = 0) => {
  const found = widths.find((width) => width >= HS);
  if (found === undefined) throw new Gpt2Error(`attention/3-tiled takes heads of up to 128 elements, not ${HS}`);
  return found;
};
/** Bytes of some tiles of a block, and of the weights that threads exchange: 64 rows of floats, each with 4 more. */
const bytesOf = (tiles = 0, width = 0) => 4 * 64 * (tiles * (width + 4) + 68);

export default [
  defineKernel({
    op: 'attention_forward',
    source: 'forward.cu',
    dtypes: ['fp32', 'bf16'],
    instantiate: widths.map((width) => `attention_forward<${width}>`),
    launches: ({ out, lse, qkv, B, T, C, NH }) => {
      const width = widthOf(C / NH);
      return [
        {
          kernel: `attention_forward<${width}>`,
          grid: [B * NH, Math.ceil(T / 64)],
          block: 256,
          shared: bytesOf(3, width),
          args: [out, lse, qkv, T, NH, C / NH],
        },
      ];
    },
  }),
  defineKernel({
    op: 'attention_backward',
    source: 'backward.cu',
    dtypes: ['fp32', 'bf16'],
    instantiate: widths.flatMap((each) => [`attention_backward_queries<${each}>`, `attention_backward_keys<${each}>`]),
    // D, a number for each query.
    scratch: ({ B, T, NH }) => B * NH * T * 4,
    launches: ({ dqkv, dout, out, qkv, lse, scratch, B, T, C, NH }) => {
      const width = widthOf(C / NH);
      return [
        {
          kernel: `attention_backward_queries<${width}>`,
          grid: [B * NH, Math.ceil(T / 64)],
          block: 256,
          shared: bytesOf(4, width),
          args: [dqkv, scratch, dout, out, qkv, lse, T, NH, C / NH],
        },
        {
          kernel: `attention_backward_keys<${width}>`,
          grid: [B * NH, Math.ceil(T / 64)],
          block: 256,
          shared: bytesOf(4, width),
          args: [dqkv, scratch, dout, qkv, lse, T, NH, C / NH],
        },
      ];
    },
  }),
];
