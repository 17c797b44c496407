import type { Numbers, Random } from './case-numbers.ts';
import { exact } from './fp8.ts';
import { casesOf, storedInElements, sumInFp32 } from './op-case.ts';

type Sizes = Readonly<Record<'B' | 'T' | 'C' | 'NH' | 'queryFactor', number>>;

const sizesOf = (NH: number, HS: number, batch: Readonly<Record<'B' | 'T' | 'S', number>>, queryFactor = 1) => ({
  ...batch,
  ...{ C: NH * HS, NH, eps: 1e-5, queryFactor },
});
const sizes = [
  sizesOf(3, 128, { B: 2, T: 64, S: 80 }, 1.3),
  sizesOf(2, 64, { B: 3, T: 1, S: 33 }),
  sizesOf(3, 20, { B: 2, T: 7, S: 7 }, 1.3),
  sizesOf(5, 2, { B: 4, T: 9, S: 20 }),
];

/** A table of rotations [positions,HS]: for each position the HS/2 cosines, then the HS/2 sines of its angles. */
export function rotationsOf(positions: number, HS: number): Float32Array {
  const half = HS / 2;
  return Float32Array.from({ length: positions * HS }, (_, index) => {
    const i = index % HS;
    const angle = Math.floor(index / HS) / 10_000 ** ((i % half) / half);
    return i < half ? Math.cos(angle) : Math.sin(angle);
  });
}

/** Visits each head of q and k: with its token, the index of its first element in qkv, and its index in the token (0 to 2 NH - 1). */
function forEachHead({ B, T, C, NH }: Sizes, visit: (token: number, start: number, head: number) => void): void {
  for (let token = 0; token < B * T; token++) {
    for (let head = 0; head < 2 * NH; head++) visit(token, token * 3 * C + head * (C / NH), head);
  }
}

/** Rotates the pairs (x[i], x[i + HS/2]) of a head by a position's angles; `sign` -1 rotates in the opposite direction. */
function rotate(x: Float64Array, rotations: Numbers, position: number, sign = 1): void {
  const half = x.length / 2;
  for (let i = 0; i < half; i++) {
    const [cos, sin] = [rotations[position * x.length + i]!, sign * rotations[position * x.length + half + i]!];
    [x[i], x[i + half]] = [x[i]! * cos + x[i + half]! * sin, x[i + half]! * cos - x[i]! * sin];
  }
}

const forwardCases = (['qk_norm_rotary_forward', 'qk_norm_rotary_forward.values'] as const).map((name) =>
  casesOf(name, {
    sizes,
    inputs: (_, { B, T, S, C, NH }: Sizes & { S: number }, random: Random) => ({
      rotations: rotationsOf(S, C / NH),
      positions: random.integers(B, S - T + 1),
    }),
    formula({ qkv, rstd, rotations, positions, valueFactors, embedded }, size: Sizes & { eps: number }) {
      const { B, T, C, NH, eps, queryFactor } = size;
      const HS = C / NH;
      const [out, scales] = [Float64Array.from(qkv), new Float64Array(B * T * 2 * NH)];
      forEachHead(size, (token, start, head) => {
        const x = out.subarray(start, start + HS);
        const scale = 1 / Math.sqrt(x.reduce((sum, value) => sum + value ** 2 / HS, eps));
        scales[token * 2 * NH + head] = scale;
        const factor = (rstd ? scale : 1) * (head < NH ? queryFactor : 1);
        for (let i = 0; i < HS; i++) x[i]! *= factor;
        rotate(x, rotations, (positions?.[Math.floor(token / T)] ?? 0) + (token % T));
      });
      const values = new Float64Array(B * T * C);
      for (let at = 0; at < values.length; at++) {
        const v = Math.floor(at / C) * 3 * C + 2 * C + (at % C);
        values[at] = qkv[v]!;
        if (valueFactors) out[v] = valueFactors[0]! * qkv[v]! + valueFactors[1]! * (embedded?.[at] ?? 0);
      }
      return { qkv: out, rstd: scales, values };
    },
    bounds: () => ({ qkv: { ...storedInElements, parts: 3 }, rstd: sumInFp32, values: exact }),
  }),
);

const backwardCases = (['qk_norm_rotary_backward', 'qk_norm_rotary_backward.values'] as const).map((name) =>
  casesOf(name, {
    sizes,
    inputs: ({ rstd }, { T, C, NH }: Sizes) => ({
      rotations: rotationsOf(T, C / NH),
      rstd: rstd.map((value) => 0.5 + Math.abs(value)),
    }),
    formula({ dqkv, qkv, rstd, rotations, valueFactors, values, embedded }, size: Sizes) {
      const { B, T, C, NH, queryFactor } = size;
      const HS = C / NH;
      const din = Float64Array.from(dqkv);
      forEachHead(size, (token, start, head) => {
        const factor = head < NH ? queryFactor : 1;
        const dy = din.subarray(start, start + HS);
        const y = Float64Array.from(qkv.subarray(start, start + HS), (value) => value / factor);
        for (let i = 0; i < HS; i++) dy[i]! *= factor;
        for (const each of [y, dy]) rotate(each, rotations, token % T, -1);
        if (!rstd) return;
        const mean = dy.reduce((sum, value, i) => sum + (value * y[i]!) / HS, 0);
        for (let i = 0; i < HS; i++) dy[i] = rstd[token * 2 * NH + head]! * (dy[i]! - y[i]! * mean);
      });
      const [dembedded, dvalueFactors] = [new Float64Array(B * T * C), new Float64Array(2)];
      for (let at = 0; valueFactors && at < dembedded.length; at++) {
        const v = Math.floor(at / C) * 3 * C + 2 * C + (at % C);
        dvalueFactors[0]! += dqkv[v]! * values[at]!;
        dvalueFactors[1]! += dqkv[v]! * (embedded?.[at] ?? 0);
        dembedded[at] = valueFactors[1]! * dqkv[v]!;
        din[v] = valueFactors[0]! * dqkv[v]!;
      }
      return { dqkv: din, dembedded, dvalueFactors };
    },
    bounds: () => ({
      dqkv: { fp32: 2e-6, bf16: 2e-3, parts: 3 },
      dembedded: storedInElements,
      dvalueFactors: sumInFp32,
    }),
  }),
);

export const qkNormRotaryCases = [...forwardCases, ...backwardCases];
