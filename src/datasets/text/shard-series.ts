// Writes a stream of tokens into shards of given sizes, one after the other, and hashes each.
import { createHash, type Hash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Role } from '../../shards/find.ts';
import { shardHeader } from '../../shards/shard.ts';

export interface NamedSize {
  readonly file: string;
  readonly tokens: number;
}

export interface WrittenShard extends NamedSize {
  readonly role: Role;
  readonly sha256: string;
}

export class ShardSeries {
  readonly #folder: string;
  readonly #sizes: readonly NamedSize[];
  readonly #hashes: string[] = [];
  readonly #buffer = new Uint16Array(1 << 19);
  #buffered = 0;
  #open: { file: number; hash: Hash; left: number } | undefined;

  constructor(folder: string, sizes: readonly NamedSize[]) {
    this.#folder = folder;
    this.#sizes = sizes;
  }

  write(tokens: Uint16Array): void {
    for (let done = 0; done < tokens.length; ) {
      this.#open ??= this.#start();
      const room = Math.min(this.#buffer.length - this.#buffered, this.#open.left, tokens.length - done);
      this.#buffer.set(tokens.subarray(done, done + room), this.#buffered);
      this.#buffered += room;
      this.#open.left -= room;
      done += room;
      if (this.#buffered === this.#buffer.length || this.#open.left === 0) this.#flush();
      if (this.#open.left === 0) this.#end();
    }
  }

  finish(role: Role): WrittenShard[] {
    return this.#sizes.map(({ file, tokens }, index) => ({ file, role, tokens, sha256: this.#hashes[index]! }));
  }

  close(): void {
    if (this.#open) closeSync(this.#open.file);
    this.#open = undefined;
  }

  #start() {
    const { file: name, tokens } = this.#sizes[this.#hashes.length]!;
    const header = shardHeader(tokens);
    const opened = { file: openSync(join(this.#folder, name), 'w'), hash: createHash('sha256'), left: tokens };
    this.#put(opened, header);
    return opened;
  }

  #flush(): void {
    this.#put(this.#open!, new Uint8Array(this.#buffer.buffer, 0, this.#buffered * 2));
    this.#buffered = 0;
  }

  #put({ file, hash }: { file: number; hash: Hash }, bytes: Uint8Array): void {
    hash.update(bytes);
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
  }

  #end(): void {
    fsyncSync(this.#open!.file);
    closeSync(this.#open!.file);
    this.#hashes.push(this.#open!.hash.digest('hex'));
    this.#open = undefined;
  }
}
