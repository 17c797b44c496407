import type { Numbers, Random } from './case-numbers.ts';
import { casesOf } from './op-case.ts';

type AttentionSizes = Readonly<Record<'B' | 'T' | 'C' | 'NH', number>>;
/** Sizes of a mask: `window` in tokens, and `documents`, the longest document in tokens; 0 for none. */
type MaskSizes = Readonly<Record<'B' | 'T' | 'window' | 'documents', number>>;

type Attention = ReturnType<typeof computeAttention>;

const computed = new WeakMap<Numbers, { dout: Numbers | undefined; first: Numbers | undefined; result: Attention }>();

/**
 * The reference: attention forward and, if `dout` [B,T,C] is defined, backward in double. `first` [B,T] is each query's first key;
 * undefined without a mask. The last result for each `qkv` array is cached.
 */
export function attention(
  qkv: Numbers,
  dout: Numbers | undefined,
  sizes: AttentionSizes,
  first?: Numbers | undefined,
): Attention {
  const known = computed.get(qkv);
  if (known && known.dout === dout && known.first === first) return known.result;
  const result = computeAttention(qkv, dout, sizes, first);
  computed.set(qkv, { dout, first, result });
  return result;
}

/** A random mask: each query's first key [B,T], for a window and documents of random lengths up to `documents`. */
function maskOf({ B, T, window, documents }: MaskSizes, random: Random): Int32Array {
  let [start, end] = [0, 0];
  return new Int32Array(B * T).map((_, index) => {
    const t = index % T;
    if (t === 0) end = 0;
    if (t === end) {
      start = t;
      end = documents > 0 ? t + 1 + random.integers(1, documents)[0]! : T;
    }
    return Math.max(start, window > 0 ? t - window + 1 : 0);
  });
}

function computeAttention(
  qkv: Numbers,
  dout: Numbers | undefined,
  { B, T, C, NH }: AttentionSizes,
  first: Numbers | undefined,
) {
  const HS = C / NH;
  const scale = 1 / Math.sqrt(HS);
  const out = new Float64Array(B * T * C);
  const lse = new Float64Array(B * NH * T);
  const dqkv = new Float64Array(B * T * 3 * C);
  const share = new Float64Array(T);
  const dshare = new Float64Array(T);
  for (let b = 0; b < B; b++) {
    for (let h = 0; h < NH; h++) {
      for (let t = 0; t < T; t++) {
        const q = (b * T + t) * 3 * C + h * HS;
        const row = (b * T + t) * C + h * HS;
        const begin = first ? first[b * T + t]! : 0;
        let largest = Number.NEGATIVE_INFINITY;
        for (let s = begin; s <= t; s++) {
          const k = (b * T + s) * 3 * C + C + h * HS;
          let score = 0;
          for (let i = 0; i < HS; i++) score += qkv[q + i]! * qkv[k + i]!;
          share[s] = score * scale;
          largest = Math.max(largest, share[s]!);
        }
        let sum = 0;
        for (let s = begin; s <= t; s++) sum += Math.exp(share[s]! - largest);
        lse[(b * NH + h) * T + t] = largest + Math.log(sum);
        let total = 0;
        for (let s = begin; s <= t; s++) {
          share[s] = Math.exp(share[s]! - largest) / sum;
          const v = (b * T + s) * 3 * C + 2 * C + h * HS;
          let d = 0;
          for (let i = 0; i < HS; i++) {
            out[row + i]! += share[s]! * qkv[v + i]!;
            if (!dout) continue;
            d += dout[row + i]! * qkv[v + i]!;
            dqkv[v + i]! += share[s]! * dout[row + i]!;
          }
          dshare[s] = d;
          total += share[s]! * d;
        }
        for (let s = begin; dout && s <= t; s++) {
          const k = (b * T + s) * 3 * C + C + h * HS;
          const dscore = share[s]! * (dshare[s]! - total) * scale;
          for (let i = 0; i < HS; i++) {
            dqkv[q + i]! += dscore * qkv[k + i]!;
            dqkv[k + i]! += dscore * qkv[q + i]!;
          }
        }
      }
    }
  }
  return { out, lse, dqkv };
}

const sizeOf = (T: number, HS: number) => {
  const NH = T < 200 ? 3 : 1;
  return { B: T < 200 ? 2 : 1, T, C: HS * NH, NH };
};
// A case with several tiles of rows that is small enough for an emulated GPU.
const small: AttentionSizes = { B: 1, T: 129, C: 20, NH: 1 };
const sizes = [...[1, 7, 64, 129].map((T) => sizeOf(T, 64)), sizeOf(64, 20), sizeOf(64, 128), sizeOf(300, 96), small];
// Each head size that has separate kernels, at lengths just below and above multiples of a tile.
const gpuSizes = [1, 7, 127, 129, 1000, 1024].flatMap((T) => [20, 32, 64, 80, 96, 128].map((HS) => sizeOf(T, HS)));
const masked = (T: number, HS: number, window: number, documents = 0) => ({ ...sizeOf(T, HS), window, documents });
const maskedSizes = [
  ...[1, 100].map((window) => masked(129, 64, window)),
  ...[
    masked(300, 96, 128),
    masked(300, 20, 0, 90),
    masked(129, 128, 30, 60),
    masked(1, 64, 1),
    masked(700, 64, 0, 300),
  ],
];
/** Each head size that has separate kernels, with windows and documents below and above a tile; the longest sequence. */
const maskedGpuSizes = [
  ...[20, 32, 64, 80, 96, 128].flatMap((HS) => [
    ...[masked(129, HS, 100), masked(1000, HS, 1), masked(1000, HS, 128), masked(1000, HS, 0, 300)],
  ]),
  ...[20, 64, 128].flatMap((HS) => [masked(4096, HS, 1000), masked(4096, HS, 0, 3000)]),
  ...[64, 128].flatMap((HS) => [masked(4096, HS, 100, 3000), masked(65_536, HS, 256)]),
];
/** Floating-point operations of `matmuls` matmuls [T,T,HS] per head, of which the causal mask leaves half. */
const flops = (matmuls: number) => (size: AttentionSizes) => matmuls * size.B * size.T * size.T * size.C;

/** In a case with a mask: the first key that each query attends to, [B,T]. */
const firstIn = (size: AttentionSizes & Partial<MaskSizes>, random: Random): { first?: Int32Array } =>
  size.window === undefined ? {} : { first: maskOf(size as MaskSizes, random) };

const variants = [
  ['', { sizes, gpuSizes }],
  ['.masked', { sizes: maskedSizes, gpuSizes: maskedGpuSizes }],
] as const;

const forwardCases = variants.map(([variant, all]) =>
  casesOf(`attention_forward${variant}`, {
    ...all,
    inputs: (_, size: AttentionSizes, random) => firstIn(size, random),
    formula: ({ qkv, first }, size: AttentionSizes) => attention(qkv, undefined, size, first),
    bounds: () => ({
      // In bf16, the probabilities are rounded before their matmul with the values.
      out: { fp32: 2e-6, bf16: 4e-3 },
      lse: { fp32: 1e-5, bf16: 1e-4, measure: 'absolute' },
    }),
    flops: flops(2),
  }),
);

const backwardCases = variants.map(([variant, all]) =>
  casesOf(`attention_backward${variant}`, {
    ...all,
    inputs({ qkv, dout }, size: AttentionSizes, random) {
      const mask = firstIn(size, random);
      const { out, lse } = attention(qkv, dout, size, mask.first);
      return { out, lse, ...mask };
    },
    formula: ({ qkv, dout, first }, size: AttentionSizes) => ({ dqkv: attention(qkv, dout, size, first).dqkv }),
    // In bf16, the probabilities P and the gradients dS are rounded, and D = rowsum(dout * out) uses the rounded out.
    bounds: () => ({ dqkv: { fp32: 5e-6, bf16: 8e-3, parts: 3 } }),
    flops: flops(5),
  }),
);

export const attentionCases = [...forwardCases, ...backwardCases];
