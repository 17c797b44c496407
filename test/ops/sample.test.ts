// The choice of a token against the formula of cuda/gpt2.h, written out in whole numbers, and against the softmax's probabilities.
import { describe, expect, it } from 'vitest';
import type { Choice } from '../../src/inference/sample/generate.ts';
import { held, Random } from '../../src/ops/cases/case-numbers.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

const plain: Choice = { temperature: 1, topK: 0, topP: 1 };

/** The number of SplitMix64 seeded with 0 at a place. */
function splitmix(place: bigint): bigint {
  const word = (value: bigint) => BigInt.asUintN(64, value);
  let mixed = word((place + 1n) * 0x9e3779b97f4a7c15n);
  mixed = word((mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = word((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return mixed ^ (mixed >> 31n);
}

/** The weights that are kept; 0 where one is not. */
function keptWeights(logits: ArrayLike<number>, { temperature, topK, topP }: Choice): number[] {
  const largest = Math.max(...Array.from(logits));
  const weights = Array.from(logits, (logit) =>
    Math.round(2 ** 31 * Math.fround(Math.exp(Math.fround(Math.fround(logit - largest) / Math.fround(temperature))))),
  );
  const order = weights.map((_, index) => index).sort((a, b) => weights[b]! - weights[a]! || a - b);
  let kept = topK > 0 ? order.slice(0, topK) : order;
  if (topP < 1) {
    const target = Math.max(1, Math.ceil(Math.fround(topP) * kept.reduce((sum, index) => sum + weights[index]!, 0)));
    let sum = 0;
    kept = kept.filter((index) => {
      const isNeeded = sum < target;
      sum += weights[index]!;
      return isNeeded;
    });
  }
  const isKept = new Set(kept);
  return weights.map((weight, index) => (isKept.has(index) ? weight : 0));
}

/** The index that a number of 64 bits chooses, and how far that number lies inside its share, of all. */
function chosen(kept: readonly number[], chance: bigint): { index: number; inside: number } {
  const total = kept.reduce((sum, weight) => sum + weight, 0);
  const place = Number((chance * BigInt(total)) >> 64n);
  let running = 0;
  const index = kept.findIndex((weight) => {
    running += weight;
    return running > place;
  });
  return { index, inside: Math.min(running - 1 - place, place - (running - kept[index]!)) / total };
}

describeBackends(
  'sample',
  (device) => {
    /** Choices for each of `rows`, `times` times in a row from `position` on: [rows][times]. */
    function draw(rows: readonly ArrayLike<number>[], choice: Partial<Choice>, times = 1, position = 0): number[][] {
      using bench = new TensorBench(device());
      const [B, V, S] = [rows.length, rows[0]!.length, position + times];
      const Vp = Math.ceil(V / 64) * 64;
      const logits = new Float32Array(B * Vp).fill(Number.NaN);
      for (const [row, of] of rows.entries()) logits.set(of, row * Vp);
      const sizes = { B, S, V, Vp, ...plain, ...choice };
      const positions = new Int32Array(B).fill(position);
      const tensors = bench.call('sample', sizes, { logits, positions, seeds: seedsOf(B) });
      for (let time = 1; time < times; time++) bench.call('sample', sizes, tensors);
      expect([...(tensors.positions.read() as Int32Array)]).toEqual(new Array(B).fill(position + times));
      const out = tensors.tokens.read() as Int32Array;
      return rows.map((__, row) => [...out.slice(row * (S + 1) + position + 1, (row + 1) * (S + 1))]);
    }

    it('takes the first of equal logits at temperature 0', () => {
      expect(draw([[1, 5, 5, 2]], { temperature: 0 })).toEqual([[1]]);
      expect(draw([[-3, -1, -2, -1]], { temperature: 0 })).toEqual([[1]]);
      expect(draw([[0, -0, 0]], { temperature: 0 })).toEqual([[0]]);
    });

    it.each([0.5, 1, 2])('has the probabilities of the softmax at temperature %d', (temperature) => {
      const logits = held(device().elementType, [0.5, 0.25, 0.125, 0.125].map(Math.log));
      const shares = Array.from(logits, (logit) => Math.exp(logit / temperature));
      const total = shares.reduce((sum, share) => sum + share, 0);
      const indices = draw(new Array(1000).fill(logits), { temperature }, 40).flat();
      for (const [index, share] of shares.entries()) {
        const part = indices.filter((each) => each === index).length / indices.length;
        // The standard deviation of a part is at most 0.0025; four of them.
        expect(Math.abs(part - share / total)).toBeLessThan(0.01);
      }
    });

    describe.each([
      ['few', 7, 60],
      ['some', 1003, 30],
      ["GPT-2's", 50257, 8],
    ])('of %s tokens', (_name, V, count) => {
      it.each([
        plain,
        { ...plain, temperature: 0.7 },
        { ...plain, topK: 5 },
        { ...plain, topK: 40, topP: 0.9 },
        { ...plain, topP: 0.95, temperature: 1.3 },
        // Flat: most weights have the same upper bytes.
        { ...plain, topP: 0.5, temperature: 50 },
        { ...plain, topK: 3, temperature: 0.01 },
        { ...plain, temperature: 1e-30 },
        { ...plain, topP: 0 },
      ])('is what the formula says: %j', (choice) => {
        const random = new Random(V);
        const rows = Array.from({ length: count }, () => held(device().elementType, random.normals(V, 3)));
        // Some equal, as the logits of a poor model are.
        for (const row of rows) for (let index = 3; index < V; index += 4) row[index] = row[index - 1]!;
        const position = 11;
        const seeds = seedsOf(count);
        for (const [row, [index]] of draw(rows, choice, 1, position).entries()) {
          const kept = keptWeights(rows[row]!, choice);
          const chance = splitmix((BigInt.asUintN(32, BigInt(seeds[row]!)) << 32n) + BigInt(position));
          const wanted = chosen(kept, chance);
          expect(kept[index!], `row ${row}`).toBeGreaterThan(0);
          // exp rounds differently here: a number within a few roundings of a boundary may fall to the neighbour.
          if (wanted.inside > 1e-6) expect(index, `row ${row}`).toBe(wanted.index);
        }
      });
    });

    it('takes no chance from where a text stands among others, nor from how often it was asked', () => {
      const random = new Random(1);
      const rows = Array.from({ length: 5 }, () => held(device().elementType, random.normals(300, 2)));
      const whole = draw(rows, {}, 6);
      expect(draw(rows.slice(0, 2), {}, 6)).toEqual(whole.slice(0, 2));
      expect(new Set(whole.flat()).size).toBeGreaterThan(10);
    });

    it('gives -1 where a logit is not finite, and leaves a text that is full', () => {
      for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
        expect(draw([[1, bad, 2]], {})).toEqual([[-1]]);
        expect(draw([[1, bad, 2]], { temperature: 0 })).toEqual([[-1]]);
      }
      using bench = new TensorBench(device());
      const sizes = { B: 3, S: 4, V: 60, Vp: 64, ...plain, temperature: 0 };
      const { tokens, positions } = bench.call('sample', sizes, {
        ...{ logits: new Float32Array(3 * 64), tokens: new Int32Array(15).fill(7) },
        ...{ positions: [4, -1, 3], seeds: [1, 2, 3] },
      });
      expect([...(positions.read() as Int32Array)]).toEqual([4, -1, 4]);
      expect([...(tokens.read() as Int32Array)]).toEqual([...new Array(14).fill(7), 0]);
    });

    it('large logits do not overflow', () => {
      expect(new Set(draw([[3e38, -3e38, 3e38]], {}, 50).flat())).toEqual(new Set([0, 2]));
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);

const seedsOf = (count: number): Int32Array =>
  Int32Array.from({ length: count }, (_, index) => Math.imul(index - 3, 0x9e3779b1));
