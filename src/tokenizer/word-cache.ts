// Caches the ids of short byte strings in a table of bounded size. An entry has 64 bytes, so that a look-up touches one or two
// cache lines. A text repeats a few thousand words; a look-up takes a hundredth of the time of encoding.
import type { TokenList } from './tokens.ts';

/** The longest cached word, in bytes. Longer words seldom repeat. */
export const longestWord = 40;
const mostIds = 11;

/** Number of sets of the cache. A set has two entries; a new word replaces the older one. */
const setCount = 1 << 16;
const lineInts = 16;
const setInts = 2 * lineInts;
const keyStart = 1;
const idsStart = 11;

/**
 * Returns a function that appends the ids of a word, bytes[start, end) of at most `longestWord` bytes.
 * @param encode returns the ids of a word that is not in the cache
 */
export function wordCache(encode: (bytes: Uint8Array, start: number, end: number) => ArrayLike<number>) {
  /** Entries of 16 int32: bytes + 256 * number of ids (0: empty) + 65536 * first id; 40 bytes of the word; ten more ids. */
  const table = new Int32Array(setCount * setInts);
  const key = new Int32Array(longestWord / 4);
  const holds = (line: number, length: number, ints: number): boolean => {
    if ((table[line]! & 255) !== length) return false;
    for (let int = 0; int < ints; int++) if (table[line + keyStart + int] !== key[int]) return false;
    return true;
  };
  /** Encodes a word that is not in the cache, and puts it first in its set. */
  const learn = (set: number, bytes: Uint8Array, start: number, end: number, into: TokenList): void => {
    const ids = encode(bytes, start, end);
    into.append(ids);
    if (ids.length > mostIds) return;
    table.copyWithin(set + lineInts, set, set + lineInts);
    table.fill(0, set, set + lineInts);
    table[set] = (end - start) | (ids.length << 8) | (ids[0]! << 16);
    for (let at = start; at < end; at++) {
      table[set + keyStart + ((at - start) >> 2)]! |= bytes[at]! << (((at - start) & 3) * 8);
    }
    for (let index = 1; index < ids.length; index++) {
      table[set + idsStart + ((index - 1) >> 1)]! |= ids[index]! << (((index - 1) & 1) * 16);
    }
  };
  return (bytes: Uint8Array, start: number, end: number, into: TokenList): void => {
    const length = end - start;
    const ints = (length + 3) >> 2;
    let hash = length;
    for (let int = 0, at = start; int < ints; int++, at += 4) {
      let value = 0;
      for (let byte = Math.min(at + 4, end) - 1; byte >= at; byte--) value = (value << 8) | bytes[byte]!;
      key[int] = value;
      hash = Math.imul(hash ^ value, 0x9e3779b1);
      hash ^= hash >>> 15;
    }
    const set = ((hash ^ (hash >>> 16)) & (setCount - 1)) * setInts;
    const line = holds(set, length, ints) ? set : set + lineInts;
    if (line !== set && !holds(line, length, ints)) {
      learn(set, bytes, start, end, into);
      return;
    }
    const head = table[line]!;
    into.push(head >>> 16);
    const more = ((head >> 8) & 255) - 1;
    for (let index = 0; index < more; index++) {
      into.push((table[line + idsStart + (index >> 1)]! >>> ((index & 1) * 16)) & 0xffff);
    }
  };
}
