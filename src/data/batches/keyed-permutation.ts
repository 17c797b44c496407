// A permutation that is computed instead of stored: a Feistel network over two digits of mixed radix, with cycle walking (Black
// and Rogaway 2002). It needs only the memory of its keys, and some 100 ns for each element, whatever the size.
import type { MersenneTwister } from './mersenne-twister.ts';

/** After two rounds neighbours are related; four pass the tests of randomness with 16.8 million elements. Eight, to be safe. */
const rounds = 8;

/** A permutation of 0, 1, … count - 1, for counts up to 2^52. Its keys are the generator's next numbers. */
export function keyedPermutation(count: number, generator: MersenneTwister): (index: number) => number {
  const keys = Array.from({ length: rounds }, () => generator.next());
  const high = Math.ceil(Math.sqrt(count));
  const low = Math.ceil(count / high);
  /** A permutation of 0, 1, … high · low - 1, because each round can be undone: it adds to one digit a hash of the other. */
  const shuffled = (index: number): number => {
    let [first, second] = [Math.floor(index / low), index % low];
    for (let round = 0; round < rounds; round += 2) {
      first = (first + hash(second ^ keys[round]!)) % high;
      second = (second + hash(first ^ keys[round + 1]!)) % low;
    }
    return first * low + second;
  };
  return (index) => {
    // Fewer than `high` values are outside the range. The permutation's cycle from such a value leads back into the range.
    let value = shuffled(index);
    while (value >= count) value = shuffled(value);
    return value;
  };
}

/** A hash in which each bit of `value` changes half of the 32 bits: the end of MurmurHash3 (Appleby 2011). */
function hash(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
