// Writes a stream of tokens into shards of planned sizes, one after the other, and hashes each shard.
import { createHash, type Hash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TokenList } from '../../../tokenizer/tokens.ts';
import type { Dataset } from '../../shards/dataset-file.ts';
import { shardHeader } from '../../shards/shard.ts';

type WrittenShard = Dataset['shards'][number];

/** Number of tokens that are collected before they are written. */
const mostPending = 1 << 18;

export function shardSeries(folder: string, sizes: readonly Omit<WrittenShard, 'sha256'>[]) {
  const pending = new TokenList(2 * mostPending);
  const written: WrittenShard[] = [];
  let open: { file: number; hash: Hash; left: number } | undefined;
  const put = ({ file, hash }: { file: number; hash: Hash }, bytes: Uint8Array): void => {
    hash.update(bytes);
    writeFileSync(file, bytes);
  };
  const start = () => {
    const { file, tokens } = sizes[written.length]!;
    const opened = { file: openSync(join(folder, file), 'w'), hash: createHash('sha256'), left: tokens };
    put(opened, shardHeader(tokens));
    return opened;
  };
  const close = (): void => {
    if (open) closeSync(open.file);
    open = undefined;
  };
  const end = ({ file, hash }: { file: number; hash: Hash }): void => {
    fsyncSync(file);
    close();
    written.push({ ...sizes[written.length]!, sha256: hash.digest('hex') });
  };
  return {
    ...{ written, close },
    write(tokens: Uint16Array): void {
      for (let done = 0; done < tokens.length; ) {
        open ??= start();
        const taken = tokens.subarray(done, done + Math.min(open.left, mostPending));
        pending.append(taken);
        open.left -= taken.length;
        done += taken.length;
        if (pending.length < mostPending && open.left > 0) continue;
        const { buffer, byteOffset, byteLength } = pending.view();
        put(open, new Uint8Array(buffer, byteOffset, byteLength));
        pending.clear();
        if (open.left === 0) end(open);
      }
    },
  };
}
