// The ops' formulas in double precision, as plain loops over flat arrays: what every library and dtype is measured against.

export type Numbers = Float32Array | Float64Array;

/** a [N,K] times b [O,K] transposed, or with `layout` "kn" b [K,O], or with "tn" a [K,N] transposed times b [K,O]: [N,O]. */
export function product(
  a: Numbers,
  b: Numbers,
  { N, K, O }: { N: number; K: number; O: number },
  layout: 'nt' | 'nn' | 'tn',
): Float64Array {
  const out = new Float64Array(N * O);
  if (layout === 'nt') {
    for (let n = 0; n < N; n++) {
      for (let o = 0; o < O; o++) {
        let sum = 0;
        for (let k = 0; k < K; k++) sum += a[n * K + k]! * b[o * K + k]!;
        out[n * O + o] = sum;
      }
    }
    return out;
  }
  for (let n = 0; n < N; n++) {
    for (let k = 0; k < K; k++) {
      const value = layout === 'nn' ? a[n * K + k]! : a[k * N + n]!;
      for (let o = 0; o < O; o++) out[n * O + o]! += value * b[k * O + o]!;
    }
  }
  return out;
}

const geluScale = Math.sqrt(2 / Math.PI);
const inner = (x: number): number => Math.tanh(geluScale * (x + 0.044715 * x ** 3));

export const gelu = (x: number): number => 0.5 * x * (1 + inner(x));

export function geluDerivative(x: number): number {
  const t = inner(x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * geluScale * (1 + 3 * 0.044715 * x * x);
}

/** Forward and backward of a layernorm over rows of C. */
export function layernorm(
  x: Numbers,
  weight: Numbers,
  bias: Numbers,
  dout: Numbers,
  { N, C }: { N: number; C: number },
) {
  const result = {
    out: new Float64Array(N * C),
    mean: new Float64Array(N),
    rstd: new Float64Array(N),
    din: new Float64Array(N * C),
    dweight: new Float64Array(C),
    dbias: new Float64Array(C),
  };
  for (let n = 0; n < N; n++) {
    const row = x.subarray(n * C, (n + 1) * C);
    let mean = 0;
    let variance = 0;
    for (const value of row) mean += value / C;
    for (const value of row) variance += (value - mean) ** 2 / C;
    const rstd = 1 / Math.sqrt(variance + 1e-5);
    result.mean[n] = mean;
    result.rstd[n] = rstd;
    let sum = 0;
    let normSum = 0;
    for (let c = 0; c < C; c++) {
      const norm = (row[c]! - mean) * rstd;
      const d = dout[n * C + c]!;
      result.out[n * C + c] = norm * weight[c]! + bias[c]!;
      result.dweight[c]! += d * norm;
      result.dbias[c]! += d;
      sum += (d * weight[c]!) / C;
      normSum += (d * weight[c]! * norm) / C;
    }
    for (let c = 0; c < C; c++) {
      const norm = (row[c]! - mean) * rstd;
      result.din[n * C + c] = rstd * (dout[n * C + c]! * weight[c]! - sum - norm * normSum);
    }
  }
  return result;
}

export interface AttentionSizes {
  readonly B: number;
  readonly T: number;
  readonly C: number;
  readonly NH: number;
}

/** Forward and backward of causal attention; `dout` [B,T,C]. */
export function attention(qkv: Numbers, dout: Numbers, { B, T, C, NH }: AttentionSizes) {
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
        const own = (b * T + t) * C + h * HS;
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
            out[own + i]! += share[s]! * qkv[v + i]!;
            d += dout[own + i]! * qkv[v + i]!;
            dqkv[v + i]! += share[s]! * dout[own + i]!;
          }
          dshare[s] = d;
          total += share[s]! * d;
        }
        for (let s = 0; s <= t; s++) {
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

/** Losses, and their gradient times `dloss`, of rows of Vp logits of which V count. */
export function crossEntropy(
  logits: Numbers,
  targets: Int32Array,
  { V, Vp, dloss }: { V: number; Vp: number; dloss: number },
) {
  const N = targets.length;
  const losses = new Float64Array(N);
  const dlogits = new Float64Array(N * Vp);
  for (let n = 0; n < N; n++) {
    const row = logits.subarray(n * Vp, n * Vp + V);
    let largest = Number.NEGATIVE_INFINITY;
    for (const value of row) largest = Math.max(largest, value);
    let sum = 0;
    for (const value of row) sum += Math.exp(value - largest);
    losses[n] = largest + Math.log(sum) - row[targets[n]!]!;
    for (let v = 0; v < V; v++) {
      dlogits[n * Vp + v] = (Math.exp(row[v]! - largest) / sum - (v === targets[n] ? 1 : 0)) * dloss;
    }
  }
  return { losses, dlogits };
}
