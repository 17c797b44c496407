import { defineKernel } from 'gpt2.ts';

const tile = 256; // positions that a block sorts, as in the source
// (Default values give the parameters their types: without TypeScript's syntax, every version of Node reads this card.)
const tilesOf = (B = 0, T = 0) => Math.ceil((B * T) / tile);
/** Passes of 8 bits that sort keys up to V, which stands for tokens that do not exist. */
const passesOf = (V = 0) => Math.ceil(Math.log2(V + 1) / 8);

export default [
  defineKernel({
    op: 'embedding_forward',
    source: 'embedding.cu',
    dtypes: ['fp32', 'bf16'],
    launches: ({ out, tokens, wte, wpe, B, T, C, V }) => {
      // A warp per row, 8 in a block.
      const args = [out, tokens, wte, wpe, B * T, T, C, V];
      return [{ kernel: 'embedding_forward', grid: Math.ceil((B * T) / 8), block: 256, args }];
    },
  }),
  defineKernel({
    op: 'embedding_backward',
    source: 'embedding.cu',
    dtypes: ['fp32', 'bf16'],
    // A count of each digit in each tile, and two orders of the positions.
    scratch: ({ B, T }) => (256 * tilesOf(B, T) + 2 * B * T) * 4,
    launches: ({ dwte, dwpe, dout, tokens, B, T, C, V, accumulate, scratch }) => {
      const [N, tiles, passes] = [B * T, tilesOf(B, T), passesOf(V)];
      const ofTokens = [dwte, dout, tokens, scratch, N, C, V, passes - 1];
      const ofPositions = [dwpe, dout, B, T * C, accumulate];
      return [
        ...Array.from({ length: passes }, (_, pass) => [
          { kernel: 'sort_count', grid: tiles, block: tile, args: [scratch, tokens, N, V, pass] },
          { kernel: 'sort_starts', grid: 1, block: 1024, args: [scratch, 256 * tiles] },
          { kernel: 'sort_move', grid: tiles, block: tile, args: [scratch, tokens, N, V, pass] },
        ]).flat(),
        { kernel: 'embedding_backward_tokens', grid: [N, Math.ceil(C / 128)], block: 128, args: ofTokens },
        { kernel: 'embedding_backward_positions', grid: Math.ceil((T * C) / 128), block: 128, args: ofPositions },
      ];
    },
  }),
];
