// Cases of causal attention, forward and backward.
import type { Numbers } from './case-numbers.ts';
import { casesOf } from './op-case.ts';

type AttentionSizes = Readonly<Record<'B' | 'T' | 'C' | 'NH', number>>;

type Attention = ReturnType<typeof computeAttention>;

const computed = new WeakMap<Numbers, { dout: Numbers | undefined; result: Attention }>();

/** Forward and backward in double. `dout` [B,T,C] is undefined for forward alone. The result for the same arrays is kept. */
export function attention(qkv: Numbers, dout: Numbers | undefined, sizes: AttentionSizes): Attention {
  const known = computed.get(qkv);
  if (known && known.dout === dout) return known.result;
  const result = computeAttention(qkv, dout, sizes);
  computed.set(qkv, { dout, result });
  return result;
}

function computeAttention(qkv: Numbers, dout: Numbers | undefined, { B, T, C, NH }: AttentionSizes) {
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
        let largest = Number.NEGATIVE_INFINITY;
        for (let s = 0; s <= t; s++) {
          const k = (b * T + s) * 3 * C + C + h * HS;
          let score = 0;
          for (let i = 0; i < HS; i++) score += qkv[q + i]! * qkv[k + i]!;
          share[s] = score * scale;
          largest = Math.max(largest, share[s]!);
        }
        let sum = 0;
        for (let s = 0; s <= t; s++) sum += Math.exp(share[s]! - largest);
        lse[(b * NH + h) * T + t] = largest + Math.log(sum);
        let total = 0;
        for (let s = 0; s <= t; s++) {
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
        for (let s = 0; dout && s <= t; s++) {
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
// Several tiles of rows, and small enough for an emulated GPU.
const small: AttentionSizes = { B: 1, T: 129, C: 20, NH: 1 };
const sizes = [...[1, 7, 64, 129].map((T) => sizeOf(T, 64)), sizeOf(64, 20), sizeOf(64, 128), sizeOf(300, 96), small];
// Every head size with separate kernels, at lengths on both sides of a tile.
const gpuSizes = [1, 7, 127, 129, 1000, 1024].flatMap((T) => [20, 32, 64, 80, 96, 128].map((HS) => sizeOf(T, HS)));
/** Operations of so many matmuls [T,T,HS] of each head, of whose scores half are masked. */
const flops = (matmuls: number) => (size: AttentionSizes) => matmuls * size.B * size.T * size.T * size.C;

export const attentionCases = [
  casesOf('attention_forward', {
    ...{ sizes, gpuSizes },
    formula: ({ qkv }, size: AttentionSizes) => attention(qkv, undefined, size),
    bounds: () => ({
      // P is rounded to bf16 before its matmul with v.
      out: { fp32: 2e-6, bf16: 4e-3 },
      lse: { fp32: 1e-5, bf16: 1e-4, measure: 'absolute' },
    }),
    flops: flops(2),
  }),
  casesOf('attention_backward', {
    ...{ sizes, gpuSizes },
    inputs({ qkv, dout }, size: AttentionSizes) {
      const { out, lse } = attention(qkv, dout, size);
      return { out, lse };
    },
    formula({ qkv, dout }, size: AttentionSizes) {
      const { dqkv } = attention(qkv, dout, size);
      return { dqkv };
    },
    // P and dS are rounded, and D is computed from the rounded out. Parts: dq, dk, dv.
    bounds: () => ({ dqkv: { fp32: 5e-6, bf16: 8e-3, parts: 3 } }),
    flops: flops(5),
  }),
];
