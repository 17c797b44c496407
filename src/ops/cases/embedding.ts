import type { Numbers, Random } from './case-numbers.ts';
import { casesOf, sizesOf, storedInElements } from './op-case.ts';

type Sizes = Readonly<Record<'B' | 'T' | 'C', number>>;

const V = 5000;
const sizes = [
  // The first two are small enough for an emulated GPU; in the second, the rows with one token id fill more than one block.
  { B: 2, T: 64, C: 128, V: 190, kinds: 190 },
  { B: 2, T: 300, C: 37, V: 190, kinds: 2 },
  { B: 2, T: 9, C: 37, V, kinds: 50 },
  { B: 4, T: 1000, C: 64, V, kinds: 7 },
  { B: 3, T: 700, C: 96, V, kinds: V },
  { B: 1, T: 2100, C: 32, V, kinds: 1 },
];
/** Random tokens of at most `kinds` different ids. With few ids, backward adds many rows to one row of dwte. */
const inputs = (_: unknown, { B, T, kinds }: Sizes & { kinds: number }, random: Random) => ({
  tokens: random.integers(B * T, kinds),
});

/** Makes a function that computes an output element, from wte and, if defined, wpe. `place(row)`: its index in `ids`, its row of wpe. */
const embedded =
  (ids: Numbers, wte: Numbers, wpe: Numbers | undefined, C: number, place: (row: number) => [number, number]) =>
  (_: unknown, index: number): number => {
    const [token, position] = place(Math.floor(index / C));
    return wte[ids[token]! * C + (index % C)]! + (wpe?.[position * C + (index % C)] ?? 0);
  };

export const embeddingCases = [
  casesOf('embedding_forward', {
    ...{ sizes: sizes.map((size) => ({ ...size, S: size.T })), inputs },
    formula: ({ tokens, wte, wpe }, { B, T, C }: Sizes) => ({
      out: new Float64Array(B * T * C).map(embedded(tokens, wte, wpe, C, (row) => [row, row % T])),
    }),
    bounds: () => ({ out: { fp32: 1e-7, bf16: 2e-3 } }),
  }),
  casesOf('embedding_backward', {
    ...{ sizes, inputs },
    formula({ dout, tokens }, { T, C, V: words }: Sizes & { V: number }) {
      const [dwte, dwpe] = [new Float64Array(words * C), new Float64Array(T * C)];
      dout.forEach((value, index) => {
        const row = Math.floor(index / C);
        dwte[tokens[row]! * C + (index % C)]! += value;
        dwpe[(row % T) * C + (index % C)]! += value;
      });
      return { dwte, dwpe };
    },
    bounds: () => ({ dwte: storedInElements, dwpe: storedInElements }),
  }),
  casesOf('embedding_forward.at_positions', {
    sizes: sizesOf('B T S C', '4x1x64x128 3x5x9x37', { V }),
    inputs: (_, { B, T, S }: Sizes & { S: number }, random) => ({
      texts: random.integers(B * (S + 1), V),
      positions: random.integers(B, S - T + 1),
    }),
    formula: ({ texts, positions, wte, wpe }, { B, T, S, C }: Sizes & { S: number }) => ({
      out: new Float64Array(B * T * C).map(
        embedded(texts, wte, wpe, C, (row) => {
          const position = positions[Math.floor(row / T)]! + (row % T);
          return [Math.floor(row / T) * (S + 1) + position, position];
        }),
      ),
    }),
    bounds: () => ({ out: { fp32: 1e-7, bf16: 2e-3 } }),
  }),
];
