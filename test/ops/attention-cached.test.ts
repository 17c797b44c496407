// Attention over a cache against the op without one: a text given at once, in parts, and token by token; several texts that
// stand at different places; and what does not fit.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { floats, held, Random, relativeError, worstError } from '../../src/ops/cases/case-numbers.ts';
import {
  attentionCachedForward,
  attentionCachedScratch,
  attentionForward,
  attentionScratch,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

/** Both sides sum in fp32 and round once; in bf16 the other op also rounds probabilities. */
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

    it.each([
      { what: "GPT-2's heads", B: 2, T: 70, S: 70, NH: 3, HS: 64 },
      { what: 'a long text', B: 1, T: 700, S: 1024, NH: 2, HS: 64 },
      { what: 'small heads', B: 3, T: 19, S: 24, NH: 2, HS: 16 },
      { what: 'odd heads', B: 2, T: 33, S: 40, NH: 2, HS: 37 },
      { what: 'large heads', B: 1, T: 40, S: 41, NH: 1, HS: 256 },
      { what: 'one position', B: 1, T: 1, S: 1, NH: 1, HS: 64 },
    ])('gives what attention gives: $what', ({ B, T, S, NH, HS }) => {
      const C = NH * HS;
      const type = device().elementType;
      const values = held(type, new Random(T).normals(B * T * 3 * C));
      device().reserveWorkspace(
        Math.max(attentionScratch(device(), { B, T, C, NH }), attentionCachedScratch(device(), { S })),
      );
      const qkv = bench.tensor('qkv', [B, T, 3 * C], values);
      const wanted = bench.tensor('out', [B, T, C]);
      attentionForward(device(), { out: wanted, lse: bench.floats('lse', [B, NH, T]), qkv });

      const expectWanted = (name: string, out: Float32Array) => {
        const [relative, worst] = [relativeError(out, floats(wanted)), worstError(out, floats(wanted))];
        expect(relative < bounds[dtype] && worst < 4 * bounds[dtype], `${name}: ${relative}, ${worst}`).toBe(true);
      };
      // Parts of these lengths, one after the other.
      const splits = [[T], [Math.ceil(T / 2), T - Math.ceil(T / 2)], new Array<number>(Math.min(T, 40)).fill(1)];
      for (const lengths of splits) {
        const [keys, cached] = [bench.tensor('keys', [B, NH, S, HS]), bench.tensor('values', [B, NH, S, HS])];
        const positions = bench.tensor('positions', [B], new Int32Array(B), 'int32');
        const out = new Float32Array(B * T * C);
        // What single tokens do not come to is run at once before them.
        const rest = T - lengths.reduce((sum, length) => sum + length, 0);
        let at = 0;
        for (const length of [rest, ...lengths].filter((each) => each > 0)) {
          const part = bench.tensor('qkv', [B, length, 3 * C], rowsOf(values, B, T, 3 * C, at, length));
          const result = bench.tensor('out', [B, length, C]);
          positions.write(new Int32Array(B).fill(at));
          attentionCachedForward(device(), { out: result, keys, values: cached, qkv: part, positions });
          const got = floats(result);
          for (let b = 0; b < B; b++) {
            out.set(got.subarray(b * length * C, (b + 1) * length * C), (b * T + at) * C);
          }
          at += length;
        }
        expectWanted(`parts of ${lengths.slice(0, 3)}`, out);
      }
    });

    it('lets each text stand at its own place, and leaves what does not fit', () => {
      const [B, S, NH, HS] = [4, 12, 2, 64];
      const C = NH * HS;
      const random = new Random(9);
      const type = device().elementType;
      const shape = [B, NH, S, HS];
      const count = B * C * S;
      device().reserveWorkspace(attentionCachedScratch(device(), { S }));
      const [oldKeys, oldValues] = [held(type, random.normals(count)), held(type, random.normals(count))];
      const [keys, values] = [bench.tensor('keys', shape, oldKeys), bench.tensor('values', shape, oldValues)];
      const row = held(type, random.normals(B * 3 * C));
      const qkv = bench.tensor('qkv', [B, 1, 3 * C], row);
      const places = [0, 7, 12, -1];
      const positions = bench.tensor('positions', [B], places, 'int32');
      const out = bench.tensor('out', [B, 1, C]);
      attentionCachedForward(device(), { out, keys, values, qkv, positions });
      const [newKeys, newValues, result] = [floats(keys), floats(values), floats(out)];
      for (const [b, place] of places.entries()) {
        const fits = place >= 0 && place < S;
        for (let h = 0; h < NH; h++) {
          const head = (b * NH + h) * S * HS;
          const q = b * 3 * C + h * HS;
          for (const [now, before, own] of [
            [newKeys, oldKeys, q + C],
            [newValues, oldValues, q + 2 * C],
          ] as const) {
            const wanted = before.slice(head, head + S * HS);
            if (fits) wanted.set(row.subarray(own, own + HS), place * HS);
            expect(now.slice(head, head + S * HS)).toEqual(wanted);
          }
          const got = result.subarray(b * C + h * HS, b * C + (h + 1) * HS);
          if (!fits) {
            expect(got.every(Number.isNaN)).toBe(true);
            continue;
          }
          const scores = Array.from({ length: place + 1 }, (__, u) => {
            let sum = 0;
            for (let i = 0; i < HS; i++) sum += row[q + i]! * newKeys[head + u * HS + i]!;
            return Math.exp(sum / Math.sqrt(HS));
          });
          const total = scores.reduce((sum, score) => sum + score, 0);
          const wanted = Float32Array.from({ length: HS }, (__, i) =>
            scores.reduce((sum, score, u) => sum + (score / total) * newValues[head + u * HS + i]!, 0),
          );
          expect(relativeError(got, wanted)).toBeLessThan(dtype === 'bf16' ? 4e-3 : 2e-6);
        }
      }
    });

    it('refuses heads that are too large and a cache of another shape', () => {
      const positions = bench.tensor('positions', [1], [0], 'int32');
      const tensors = (C: number, NH: number, HS: number) => ({
        out: bench.tensor('out', [1, 1, C]),
        keys: bench.tensor('keys', [1, NH, 4, HS]),
        values: bench.tensor('values', [1, NH, 4, HS]),
        qkv: bench.tensor('qkv', [1, 1, 3 * C]),
        positions,
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

/** Rows [at, at + length) of each of B blocks of T rows. */
function rowsOf(values: Float32Array, B: number, T: number, width: number, at: number, length: number): Float32Array {
  const out = new Float32Array(B * length * width);
  for (let b = 0; b < B; b++) {
    out.set(values.subarray((b * T + at) * width, (b * T + at + length) * width), b * length * width);
  }
  return out;
}
