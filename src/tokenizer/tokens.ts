// A list of token ids that grows.

export class TokenList {
  #ids: Uint16Array;
  length = 0;

  constructor(capacity = 1024) {
    this.#ids = new Uint16Array(capacity);
  }

  push(id: number): void {
    if (this.length === this.#ids.length) this.#grow(this.length + 1);
    this.#ids[this.length++] = id;
  }

  append(ids: ArrayLike<number>): void {
    if (this.length + ids.length > this.#ids.length) this.#grow(this.length + ids.length);
    this.#ids.set(ids, this.length);
    this.length += ids.length;
  }

  /** A view of the ids, valid until the list changes. */
  view(): Uint16Array {
    return this.#ids.subarray(0, this.length);
  }

  clear(): void {
    this.length = 0;
  }

  #grow(least: number): void {
    const larger = new Uint16Array(Math.max(least, this.#ids.length * 2));
    larger.set(this.view());
    this.#ids = larger;
  }
}
