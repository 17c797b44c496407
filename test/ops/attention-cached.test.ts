// Attention over a cache: heads of every size, many positions at once and single ones; and what does not fit.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { elementCount } from '../../src/native/element-types.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { attentionCachedForward, attentionCachedScratch } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { expectFormula, TensorBench } from '../support/tensors.ts';

/** Sums in fp32 and one rounding; in bf16 also that of the probabilities. */
const bounds = { fp32: 2e-6, tf32: 2e-6, bf16: 6e-3 };

describeBackends(
  'attention over a cache',
  (device, _, dtype) => {
    let bench: TensorBench;
    beforeEach(() => {
      bench = new TensorBench(device());
    });
    afterEach(() => {
      bench.checkGuards();
      bench.close();
    });

    it.each(
      [
        { B: 2, T: 70, S: 70, NH: 3, C: 192 },
        { B: 2, T: 300, S: 1024, NH: 3, C: 192, window: 128 },
        { B: 1, T: 700, S: 1024, NH: 2, C: 128 },
        { B: 3, T: 19, S: 24, NH: 2, C: 32 },
        { B: 2, T: 33, S: 40, NH: 2, C: 74 },
        { B: 1, T: 40, S: 41, NH: 1, C: 256 },
        { B: 1, T: 1, S: 1, NH: 1, C: 64 },
      ].flatMap((sizes) => [...new Set([sizes.T, Math.ceil(sizes.T / 2), 1])].map((T) => ({ window: 0, ...sizes, T }))),
    )('many positions at once and a single one: %j', (sizes) =>
      expectFormula(device(), 'attention_cached_forward', sizes, bounds[dtype], 4 * bounds[dtype]),
    );

    it('leaves texts that do not fit', () => {
      const [B, S, NH, HS] = [4, 12, 2, 64];
      const C = NH * HS;
      const random = new Random(9);
      const drawn = (name: string, ...shape: number[]) =>
        bench.tensor(name, shape, random.normals(elementCount(shape)));
      device().reserveWorkspace(attentionCachedScratch(device(), { S }));
      const [keys, values] = [drawn('keys', B, NH, S, HS), drawn('values', B, NH, S, HS)];
      const before = [floats(keys), floats(values)];
      const positions = bench.tensor('positions', [B], [0, 7, 12, -1], 'int32');
      const out = bench.tensor('out', [B, 1, C]);
      attentionCachedForward(device(), { out, keys, values, qkv: drawn('qkv', B, 1, 3 * C), positions, window: 0 });
      expect(Array.from(floats(out), Number.isNaN)).toEqual(
        Array.from({ length: B * C }, (_, index) => index >= 2 * C),
      );
      // The cache of the last two texts.
      const rest = (cache: Float32Array) => cache.subarray(2 * C * S);
      expect([floats(keys), floats(values)].map(rest)).toEqual(before.map(rest));
    });

    it('refuses heads that are too large and a cache of another shape', () => {
      const positions = bench.tensor('positions', [1], [0], 'int32');
      const tensors = (C: number, NH: number, HS: number) => ({
        out: bench.tensor('out', [1, 1, C]),
        keys: bench.tensor('keys', [1, NH, 4, HS]),
        values: bench.tensor('values', [1, NH, 4, HS]),
        qkv: bench.tensor('qkv', [1, 1, 3 * C]),
        ...{ positions, window: 0 },
      });
      expect(() => attentionCachedForward(device(), tensors(257, 1, 257))).toThrow(
        'expected C / NH <= 256, got C = 257, NH = 1',
      );
      expect(() => attentionCachedForward(device(), tensors(64, 2, 16))).toThrow(
        'keys [B,NH,S,C/NH] has C/NH = 16, but out has C = 64',
      );
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);
