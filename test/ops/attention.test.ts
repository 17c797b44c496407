// Causal attention: masks, large scores, and texts that do not fit a cache.
import { expect, it } from 'vitest';
import type { Device } from '../../src/native/device.ts';
import { floats, held, Random } from '../../src/ops/cases/case-numbers.ts';
import { describeBackends } from '../support/backends.ts';
import { expectClose, hashOf, TensorBench } from '../support/tensors.ts';

type Sizes = Readonly<Record<'B' | 'T' | 'C' | 'NH', number>>;

/** out, lse and dqkv of random inputs, and a hash of all three; `first` decides which keys a query sees. */
function resultsOf(
  device: Device,
  sizes: Sizes,
  { first, at = 0, scale = 1 }: { first?: ArrayLike<number>; at?: number; scale?: number } = {},
) {
  using bench = new TensorBench(device);
  const { B, T, C } = sizes;
  // Those of a longer sequence, from position `at` on.
  const part = (width: number, seed: number, scale = 1) =>
    new Random(seed).normals((at + T) * B * width, scale).subarray(at * B * width);
  const masked = first ? '.masked' : '';
  const { out, lse, qkv } = bench.call(`attention_forward${masked}`, sizes, { qkv: part(3 * C, 8, scale), first });
  const gradients = { dout: part(C, 9), out, qkv, lse, first };
  const { dqkv } = bench.call(`attention_backward${masked}`, sizes, gradients);
  return { out: floats(out), lse: floats(lse), dqkv: floats(dqkv), hash: hashOf([out, lse, dqkv]) };
}

describeBackends(
  'attention',
  (device, kind, dtype) => {
    it.each([20, 64, 96, 128])('with a mask of zeros gives the bits of none, heads of %i', (HS) => {
      const sizes = { B: 2, T: 333, C: 3 * HS, NH: 3 };
      const [masked, plain] = [new Int32Array(2 * 333), undefined].map((first) =>
        resultsOf(device(), sizes, { first }),
      );
      expect(masked!.hash).toBe(plain!.hash);
    });

    it.each([20, 64, 128])('packed documents are separate batches, heads of %i', (HS) => {
      const lengths = [1, 130, 7, 200, 64, 1, 129];
      const sizes = { B: 1, C: 2 * HS, NH: 2 };
      const starts = lengths.map((_, index) => lengths.slice(0, index).reduce((sum, length) => sum + length, 0));
      const first = lengths.flatMap((length, index) => Array.from({ length }, () => starts[index]!));
      const packed = resultsOf(device(), { ...sizes, T: first.length }, { first });
      for (const [index, T] of lengths.entries()) {
        const alone = resultsOf(device(), { ...sizes, T }, { at: starts[index] });
        for (const [name, width] of [
          ['out', 1],
          ['dqkv', 3],
        ] as const) {
          const begin = starts[index]! * width * sizes.C;
          const part = packed[name].subarray(begin, begin + T * width * sizes.C);
          expectClose(`${name} of document ${index}`, part, alone[name], dtype === 'bf16' ? 8e-3 : 5e-6, 4e-2);
        }
      }
    });

    it('over a cache leaves texts that do not fit', () => {
      using bench = new TensorBench(device());
      const [B, S, C] = [4, 12, 128];
      const random = new Random(9);
      const before = [0, 1].map(() => held(device().elementType, random.normals(B * S * C)));
      const { out, keys, values } = bench.call(
        'attention_cached_forward',
        { B, T: 1, S, C, NH: 2, window: 0 },
        { keys: before[0], values: before[1], qkv: random.normals(B * 3 * C), positions: [0, 7, 12, -1] },
      );
      expect(Array.from(floats(out), Number.isNaN)).toEqual(Array.from({ length: B * C }, (_, i) => i >= 2 * C));
      // The cache of the last two texts.
      const rest = (cache: Float32Array) => cache.subarray(2 * C * S);
      expect([floats(keys), floats(values)].map(rest)).toEqual(before.map(rest));
    });

    const T = 700;
    const wrong: [string, Int32Array, string][] = [
      ['decreases', new Int32Array(T).map((_, t) => (t < 300 ? t : 0)), 'first from 299 to 300, got 0 at [0,300]'],
      ['exceeds its position', new Int32Array(T).fill(5), 'first from 0 to 0, got 5 at [0,0]'],
      ['is negative', new Int32Array(T).fill(-9), 'first from 0 to 0, got -9 at [0,0]'],
      ['is noise', new Random(3).integers(T, 2 ** 31 - 1).map((value) => value * 2), 'first from 0 to 0, got'],
    ];
    it.each(wrong)('a mask that %s is refused on a CPU, and ends on a GPU', (_, first, message) => {
      for (const HS of [20, 64, 96, 128]) {
        const run = () => resultsOf(device(), { B: 1, T, C: HS, NH: 1 }, { first });
        if (kind === 'cpu') expect(run).toThrow(message);
        else run();
      }
    });

    it('stays finite where scores are large', () => {
      const { out, lse, dqkv } = resultsOf(device(), { B: 1, T: 9, C: 16, NH: 1 }, { scale: 60 });
      expect([...out, ...lse, ...dqkv].every(Number.isFinite)).toBe(true);
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);
