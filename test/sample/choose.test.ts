// The choice of a token: greedy, distributed as the softmax says, cut by top-k and top-p, and the same for the same seed.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/errors.ts';
import { Chance, type ChoiceOptions, checkChoice, chooseToken } from '../../src/sample/choose.ts';

const draws = (logits: Float32Array, options: ChoiceOptions, count: number, seed = 1): (number | undefined)[] => {
  const chance = new Chance(seed);
  return Array.from({ length: count }, () => chooseToken(logits, options, chance));
};

/** How often each token was chosen, as a part of one. */
function frequencies(logits: Float32Array, options: ChoiceOptions, count = 40_000): number[] {
  const parts = new Array<number>(logits.length).fill(0);
  for (const token of draws(logits, options, count)) parts[token!]! += 1 / count;
  return parts;
}

const logitsOf = (...probabilities: number[]): Float32Array => Float32Array.from(probabilities, Math.log);
// Of 40,000 draws the standard deviation of a part is at most 0.0025; four of them.
const closely = 0.01;

describe('chance', () => {
  it('is SplitMix64: its first numbers from seed 1234567 are those of the published code', () => {
    const chance = new Chance(1234567);
    const expected = [6457827717110365317n, 3203168211198807973n, 9817491932198370423n];
    for (const number of expected) expect(chance.next()).toBe(Number(number >> 11n) / 2 ** 53);
  });

  it('differs between neighbouring seeds and takes no seed but a whole number', () => {
    const firsts = new Set(Array.from({ length: 1000 }, (_, seed) => new Chance(seed).next()));
    expect(firsts.size).toBe(1000);
    for (const seed of [-1, 0.5, Number.NaN, 2 ** 60]) expect(() => new Chance(seed)).toThrow(UsageError);
  });
});

describe('a token is chosen', () => {
  it('as the likeliest at temperature 0, of equals the first, without a draw', () => {
    const chance = new Chance(3);
    expect(chooseToken(new Float32Array([1, 5, 5, 2]), { temperature: 0 }, chance)).toBe(1);
    expect(chance.next()).toBe(new Chance(3).next());
  });

  it('with the probabilities of the softmax', () => {
    const wanted = [0.5, 0.25, 0.125, 0.125];
    frequencies(logitsOf(...wanted), {}).forEach((part, index) => {
      expect(Math.abs(part - wanted[index]!)).toBeLessThan(closely);
    });
  });

  it('more evenly at a high temperature, less at a low one', () => {
    const logits = logitsOf(0.8, 0.2);
    expect(frequencies(logits, { temperature: 2 })[0]).toBeCloseTo(2 / 3, 1);
    expect(frequencies(logits, { temperature: 0.5 })[0]).toBeCloseTo(16 / 17, 1);
    expect(new Set(draws(logits, { temperature: 1e-300 }, 200))).toEqual(new Set([0]));
  });

  it('from the k likeliest only, of equals the first', () => {
    const parts = frequencies(logitsOf(0.1, 0.4, 0.2, 0.3), { topK: 2 });
    expect(parts[0]! + parts[2]!).toBe(0);
    expect(Math.abs(parts[1]! - 4 / 7)).toBeLessThan(closely);
    const equals = frequencies(new Float32Array([0, 1, 0, 1, 0, 1]), { topK: 4 });
    expect(equals.map((part) => part > 0)).toEqual([true, true, false, true, false, true]);
    expect(frequencies(new Float32Array(9), { topK: 1 })[0]).toBeCloseTo(1, 9);
  });

  it('from the fewest that together have the probability p', () => {
    const logits = logitsOf(0.1, 0.5, 0.15, 0.25);
    expect(frequencies(logits, { topP: 0.7 }).map((part) => part > 0)).toEqual([false, true, false, true]);
    expect(frequencies(logits, { topP: 0.76 }).map((part) => part > 0)).toEqual([false, true, true, true]);
    expect(frequencies(logits, { topP: 0 })[1]).toBeCloseTo(1, 9);
    // p counts among those that top-k has left: 0.5 of 0.75 is two thirds.
    expect(frequencies(logits, { topK: 2, topP: 0.66 })[1]).toBeCloseTo(1, 9);
  });

  it('whatever the logits: with cuts that leave all, as without; with any cut, one that the cut leaves', () => {
    const logit = fc.float({ min: -100, max: 100, noNaN: true });
    const property = fc.property(
      fc.array(logit, { minLength: 1, maxLength: 50 }),
      fc.nat(60),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.nat(1000),
      (values, topK, topP, seed) => {
        const logits = Float32Array.from(values);
        const [all] = draws(logits, {}, 1, seed);
        expect(draws(logits, { topK: logits.length }, 1, seed)).toEqual([all]);
        const [token] = draws(logits, { topK, topP }, 1, seed);
        // As doubles: logits that differ by less than those can tell are equally likely.
        const largest = Math.max(...logits);
        const weights = Array.from(logits, (value) => Math.exp(value - largest));
        const above = weights.filter((weight) => weight > weights[token!]!).length;
        expect(above).toBeLessThan(topK || Number.POSITIVE_INFINITY);
      },
    );
    fc.assert(property, { numRuns: 1000 });
  });

  it('never where a logit is no number', () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(draws(new Float32Array([1, bad, 2]), {}, 1)).toEqual([undefined]);
      expect(draws(new Float32Array([1, bad, 2]), { temperature: 0 }, 1)).toEqual([undefined]);
    }
  });

  it('from large logits without overflow', () => {
    expect(draws(new Float32Array([3e38, -3e38, 3e38]), {}, 100).every((token) => token === 0 || token === 2)).toBe(
      true,
    );
  });

  it('the same for the same seed', () => {
    const logits = Float32Array.from({ length: 1000 }, (_, index) => Math.sin(index));
    expect(draws(logits, { topK: 40, topP: 0.9 }, 50, 7)).toEqual(draws(logits, { topK: 40, topP: 0.9 }, 50, 7));
    expect(draws(logits, {}, 50, 7)).not.toEqual(draws(logits, {}, 50, 8));
  });
});

it.each<[ChoiceOptions, string]>([
  [{ temperature: -1 }, 'temperature must be a number of at least 0, not -1'],
  [{ temperature: Number.NaN }, 'temperature'],
  [{ temperature: Number.POSITIVE_INFINITY }, 'temperature'],
  [{ topK: 1.5 }, 'topK must be a whole number of at least 0, not 1.5'],
  [{ topP: 1.01 }, 'topP must be a number from 0 to 1, not 1.01'],
])('%j is refused', (options, message) => {
  expect(() => checkChoice(options)).toThrow(UsageError);
  expect(() => checkChoice(options)).toThrow(message);
});
