// Byte-pair encoding of one long word in n log n steps, with a heap of pairs; tiktoken needs n². As in tiktoken, the neighbours
// whose joined bytes are the token of lowest id are merged first; of several equal pairs, the leftmost is first.
import type { TokenList } from './tokens.ts';

/** Appends the ids of a word that is longer than any token. */
export type Merge = (bytes: Uint8Array, start: number, end: number, into: TokenList) => void;

const none = 0xffff;
/** An entry of the heap is id * 2^32 + position, so that the least entry is the next merge. */
const shift = 2 ** 32;

/** Makes a `Merge` in 0.25 s; a merge takes 28 bytes of memory per byte of the word. @param tokens the bytes of every id */
export function createMerge(tokens: readonly Uint8Array[]): Merge {
  const pairs = pairsOf(tokens);
  const idOfByte = new Uint16Array(256);
  for (const [id, token] of tokens.entries()) if (token.length === 1) idOfByte[token[0]!] = id;

  return (bytes, start, end, into) => {
    const length = end - start;
    // Arrays indexed by the position at which a part of the word begins: the part's id, the start of the next part, the start of the
    // previous part, and the id of the token into which this part and the next part would merge.
    const ids = new Uint16Array(length);
    const next = new Uint32Array(length);
    const before = new Int32Array(length);
    const merged = new Uint16Array(length);
    for (let at = 0; at < length; at++) {
      ids[at] = idOfByte[bytes[start + at]!]!;
      next[at] = at + 1;
      before[at] = at - 1;
    }
    // Room for all pairs of bytes: a merge takes one pair from the heap and adds at most two.
    const heap = new Heap(2 * length);
    const look = (at: number) => {
      const other = next[at]!;
      const id = (other < length ? pairs.get(ids[at]! * 65536 + ids[other]!) : undefined) ?? none;
      merged[at] = id;
      if (id !== none) heap.push(id * shift + at);
    };
    for (let at = 0; at < length; at++) look(at);
    while (heap.size > 0) {
      const entry = heap.pop();
      const id = Math.floor(entry / shift);
      const at = entry % shift;
      // Skips a stale entry: one of the entry's two parts has been merged since.
      if (merged[at] !== id) continue;
      const gone = next[at]!;
      const after = next[gone]!;
      merged[gone] = none;
      ids[at] = id;
      next[at] = after;
      if (after < length) before[after] = at;
      look(at);
      if (before[at]! >= 0) look(before[at]!);
    }
    for (let at = 0; at < length; at = next[at]!) into.push(ids[at]!);
  };
}

/** Maps left * 65536 + right to the id of their joined bytes. */
function pairsOf(tokens: readonly Uint8Array[]): Map<number, number> {
  const names = tokens.map((token) => Buffer.from(token).toString('latin1'));
  const idOf = new Map(names.map((name, id) => [name, id]));
  const pairs = new Map<number, number>();
  for (const [id, name] of names.entries()) {
    // Every division of a token into two tokens counts, not only the merge list's, because tiktoken compares only the joined bytes.
    for (let cut = 1; cut < name.length; cut++) {
      const left = idOf.get(name.slice(0, cut));
      const right = idOf.get(name.slice(cut));
      if (left !== undefined && right !== undefined) pairs.set(left * 65536 + right, id);
    }
  }
  return pairs;
}

/** A min-heap of numbers. */
class Heap {
  readonly #entries: Float64Array;
  size = 0;

  constructor(capacity: number) {
    this.#entries = new Float64Array(capacity);
  }

  push(entry: number): void {
    const entries = this.#entries;
    let at = this.size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (entries[parent]! <= entry) break;
      entries[at] = entries[parent]!;
      at = parent;
    }
    entries[at] = entry;
  }

  pop(): number {
    const entries = this.#entries;
    const least = entries[0]!;
    const entry = entries[--this.size]!;
    let at = 0;
    for (let child = 1; child < this.size; child = 2 * at + 1) {
      if (child + 1 < this.size && entries[child + 1]! < entries[child]!) child++;
      if (entries[child]! >= entry) break;
      entries[at] = entries[child]!;
      at = child;
    }
    entries[at] = entry;
    return least;
  }
}
