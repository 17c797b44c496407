// Byte-pair encoding of one long word in n log n steps, with a heap of pairs; tiktoken needs n². As in tiktoken, the neighbours
// whose joined bytes are the token of lowest id are merged first; among equals, the leftmost.
import type { TokenList } from './tokens.ts';

/** Appends the ids of a word that is longer than any token. */
export type Merge = (bytes: Uint8Array, start: number, end: number, into: TokenList) => void;

const none = 0xffff;
/** The heap's entries are id * 2^32 + position: the order of merging. */
const shift = 2 ** 32;

/** `tokens` has the bytes of every id. Setup takes 0.25 s; merging needs 28 bytes of memory per byte of the word. */
export function createMerge(tokens: readonly Uint8Array[]): Merge {
  const pairs = new PairTable(tokens);
  const idOfByte = new Uint16Array(256);
  for (const [id, token] of tokens.entries()) if (token.length === 1) idOfByte[token[0]!] = id;

  return (bytes, start, end, into) => {
    const length = end - start;
    // A part ends at the position of the next part; `merged` is the id that the two would form.
    const ids = new Uint16Array(length);
    const next = new Uint32Array(length);
    const before = new Int32Array(length);
    const merged = new Uint16Array(length);
    for (let at = 0; at < length; at++) {
      ids[at] = idOfByte[bytes[start + at]!]!;
      next[at] = at + 1;
      before[at] = at - 1;
    }
    // All pairs, and at most two more for each merge.
    const heap = new Heap(2 * length);
    const look = (at: number) => {
      const other = next[at]!;
      const id = other < length ? pairs.get(ids[at]!, ids[other]!) : none;
      merged[at] = id;
      if (id !== none) heap.push(id * shift + at);
    };
    for (let at = 0; at < length; at++) look(at);
    while (heap.size > 0) {
      const entry = heap.pop();
      const id = Math.floor(entry / shift);
      const at = entry % shift;
      // Stale: one of the two parts has changed since.
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

/** Maps two ids to the id of their joined bytes: a hash table with open addressing. */
class PairTable {
  readonly #mask: number;
  readonly #keys: Uint32Array;
  /** `none` where a place is empty. */
  readonly #ids: Uint16Array;

  constructor(tokens: readonly Uint8Array[]) {
    const names = tokens.map((token) => Buffer.from(token).toString('latin1'));
    const idOf = new Map(names.map((name, id) => [name, id]));
    const found: [left: number, right: number, id: number][] = [];
    for (const [id, name] of names.entries()) {
      // Every division, not only that of the merge list: tiktoken compares bytes only.
      for (let cut = 1; cut < name.length; cut++) {
        const left = idOf.get(name.slice(0, cut));
        const right = left === undefined ? undefined : idOf.get(name.slice(cut));
        if (right !== undefined) found.push([left!, right, id]);
      }
    }
    const size = 2 ** Math.ceil(Math.log2(found.length * 2));
    this.#mask = size - 1;
    this.#keys = new Uint32Array(size);
    this.#ids = new Uint16Array(size).fill(none);
    for (const [left, right, id] of found) {
      const at = this.#place(left, right);
      this.#keys[at] = ((left << 16) | right) >>> 0;
      this.#ids[at] = id;
    }
  }

  get(left: number, right: number): number {
    return this.#ids[this.#place(left, right)]!;
  }

  #place(left: number, right: number): number {
    const key = ((left << 16) | right) >>> 0;
    let at = (Math.imul(key, 0x9e3779b1) >>> 8) & this.#mask;
    while (this.#ids[at] !== none && this.#keys[at] !== key) at = (at + 1) & this.#mask;
    return at;
  }
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
