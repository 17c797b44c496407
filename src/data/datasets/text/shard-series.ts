// Writes a stream of tokens into shards of planned sizes, one after the other, and hashes each shard.
import { createHash, type Hash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { TokenList } from '../../../tokenizer/tokens.ts';
import type { Dataset } from '../../shards/dataset-file.ts';
import { shardHeader } from '../../shards/shard.ts';

type WrittenShard = Dataset['shards'][number];
type PlannedShard = Omit<WrittenShard, 'sha256'>;

/** Tokens that are collected before they are written. */
const mostPending = 1 << 18;

export class ShardSeries {
  readonly #folder: string;
  readonly #sizes: readonly PlannedShard[];
  readonly #pending = new TokenList(2 * mostPending);
  readonly written: WrittenShard[] = [];
  #open: { file: number; hash: Hash; left: number } | undefined;

  constructor(folder: string, sizes: readonly PlannedShard[]) {
    this.#folder = folder;
    this.#sizes = sizes;
  }

  write(tokens: Uint16Array): void {
    for (let done = 0; done < tokens.length; ) {
      this.#open ??= this.#start();
      const taken = tokens.subarray(done, done + Math.min(this.#open.left, mostPending));
      this.#pending.append(taken);
      this.#open.left -= taken.length;
      done += taken.length;
      if (this.#pending.length >= mostPending || this.#open.left === 0) this.#flush();
      if (this.#open.left === 0) this.#end();
    }
  }

  close(): void {
    if (this.#open) closeSync(this.#open.file);
    this.#open = undefined;
  }

  #start() {
    const { file, tokens } = this.#sizes[this.written.length]!;
    const opened = { file: openSync(join(this.#folder, file), 'w'), hash: createHash('sha256'), left: tokens };
    this.#put(opened, shardHeader(tokens));
    return opened;
  }

  #flush(): void {
    const tokens = this.#pending.view();
    this.#put(this.#open!, new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength));
    this.#pending.clear();
  }

  #put({ file, hash }: { file: number; hash: Hash }, bytes: Uint8Array): void {
    hash.update(bytes);
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
  }

  #end(): void {
    const { file, hash } = this.#open!;
    fsyncSync(file);
    this.close();
    this.written.push({ ...this.#sizes[this.written.length]!, sha256: hash.digest('hex') });
  }
}
