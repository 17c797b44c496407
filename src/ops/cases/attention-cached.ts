// Test cases of attention of new positions over a key-value cache.
import { attention } from './attention.ts';
import type { Numbers } from './case-numbers.ts';
import { exact } from './fp8.ts';
import { casesOf } from './op-case.ts';

type Sizes = Readonly<Record<'B' | 'T' | 'S' | 'C' | 'NH' | 'window', number>>;

/** The reference: attention over all positions of each text, with zero queries at positions that are already in the cache. */
function cached(
  { keys, values, qkv, positions }: Record<'keys' | 'values' | 'qkv' | 'positions', Numbers>,
  size: Sizes,
) {
  const { B, T, S, C, NH, window } = size;
  const HS = C / NH;
  const out = new Float64Array(B * T * C);
  const [allKeys, allValues] = [Float64Array.from(keys), Float64Array.from(values)];
  for (let b = 0; b < B; b++) {
    const first = positions[b]!;
    const length = first + T;
    const text = new Float64Array(length * 3 * C);
    for (let t = 0; t < length; t++) {
      for (let c = 0; c < C; c++) {
        const inCache = ((b * NH + Math.floor(c / HS)) * S + t) * HS + (c % HS);
        const inQkv = (b * T + t - first) * 3 * C + c;
        if (t >= first) {
          text[t * 3 * C + c] = qkv[inQkv]!;
          allKeys[inCache] = qkv[inQkv + C]!;
          allValues[inCache] = qkv[inQkv + 2 * C]!;
        }
        text[t * 3 * C + C + c] = allKeys[inCache]!;
        text[t * 3 * C + 2 * C + c] = allValues[inCache]!;
      }
    }
    const visible = new Int32Array(length).map((_, t) => (window > 0 ? Math.max(0, t - window + 1) : 0));
    const whole = attention(text, undefined, { B: 1, T: length, C, NH }, visible);
    out.set(whole.out.subarray(first * C), b * T * C);
  }
  return { out, keys: allKeys, values: allValues };
}

export const attentionCachedCases = [
  casesOf('attention_cached_forward', {
    sizes: [
      { B: 3, T: 1, S: 64, C: 128, NH: 2, window: 0 },
      { B: 2, T: 7, S: 20, C: 60, NH: 3, window: 0 },
      { B: 3, T: 1, S: 200, C: 128, NH: 2, window: 1 },
      { B: 3, T: 9, S: 200, C: 128, NH: 2, window: 30 },
      { B: 2, T: 7, S: 20, C: 60, NH: 3, window: 5 },
    ],
    inputs: (_, { B, T, S }: Sizes, random) => ({ positions: random.integers(B, S - T + 1) }),
    formula: (inputs, size: Sizes) => cached(inputs, size),
    bounds: () => ({
      // In bf16, the probabilities are rounded before their matmul with the values.
      out: { fp32: 2e-6, bf16: 4e-3 },
      keys: exact,
      values: exact,
    }),
  }),
];
