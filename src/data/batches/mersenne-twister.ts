// MT19937 (Matsumoto and Nishimura 1998) in TypeScript, to shuffle batches: the loader needs no native library.
const size = 624;
const middle = 397;

export class MersenneTwister {
  readonly #state = new Uint32Array(size);
  #next = size;

  /** @param seed a whole number from 0 to 2^32 - 1 */
  constructor(seed: number) {
    const state = this.#state;
    state[0] = seed;
    for (let index = 1; index < size; index++) {
      const previous = state[index - 1]!;
      state[index] = Math.imul(1812433253, previous ^ (previous >>> 30)) + index;
    }
  }

  /** The next number, from 0 to 2^32 - 1. */
  next(): number {
    if (this.#next === size) this.#refill();
    let value = this.#state[this.#next++]!;
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c5680;
    value ^= (value << 15) & 0xefc60000;
    return (value ^ (value >>> 18)) >>> 0;
  }

  /** Shuffles in place by Fisher-Yates from the end, j = next mod (i + 1), as llm.c does. */
  shuffle(values: Int32Array): void {
    for (let index = values.length - 1; index > 0; index--) {
      const other = this.next() % (index + 1);
      const value = values[index]!;
      values[index] = values[other]!;
      values[other] = value;
    }
  }

  #refill(): void {
    const state = this.#state;
    for (let index = 0; index < size; index++) {
      const value = (state[index]! & 0x80000000) | (state[(index + 1) % size]! & 0x7fffffff);
      state[index] = state[(index + middle) % size]! ^ (value >>> 1) ^ (value & 1 ? 0x9908b0df : 0);
    }
    this.#next = 0;
  }
}

/** The numbers 0, 1, … count - 1, in new memory or in `values`. */
export function identityPermutation(count: number, values: Int32Array = new Int32Array(count)): Int32Array {
  for (let index = 0; index < count; index++) values[index] = index;
  return values;
}
