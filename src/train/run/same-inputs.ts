// Compares the shards and kernels of a resumed run with the shards and kernels of its earlier training.
import { hash } from 'node:crypto';
import { basename } from 'node:path';
import { gpt2Error, words } from '../../base/errors.ts';
import { beginning } from '../../data/shards/dataset-file.ts';
import type { Shard } from '../../data/shards/shard.ts';
import type { FoundCheckpoint } from '../../weights/checkpoint/directory.ts';

type ShardRecord = FoundCheckpoint['manifest']['shards'][number];

export const shardRecord = ({ path, tokens, sha256 }: Shard): ShardRecord => ({ name: basename(path), tokens, sha256 });

/** A sha256 over the hashes of a set of shards. */
export const dataHash = (shards: readonly Shard[]): string | undefined =>
  shards.length === 0 ? undefined : hash('sha256', `${shards.map(({ sha256 }) => sha256)}`);

/** Describes the first shard that differs from the checkpoint's record; undefined if none differs. */
export function changedShard(before: readonly ShardRecord[], now: readonly ShardRecord[]): string | undefined {
  for (let index = 0; index < Math.max(before.length, now.length); index++) {
    const [old, found] = [before[index], now[index]];
    const [was, is] = [described(old), described(found)];
    if (was !== is) return `shard ${index} was ${was}, now it is ${is}`;
    // Checkpoints of older versions have no hashes.
    if (old?.sha256 && found?.sha256 && old.sha256 !== found.sha256) {
      return `shard ${index}, ${old.name}, had the sha256 ${beginning(old.sha256)}, now it has ${beginning(found.sha256)}`;
    }
  }
  return undefined;
}

const described = (shard: ShardRecord | undefined): string =>
  shard ? `${shard.name} of ${shard.tokens} tokens` : 'missing';

/**
 * Checks that a resumed run uses the same kernel cards.
 * @param before the hashes of the cards that the run recorded; `now`: the hashes of the present cards. Undefined means no cards.
 * @throws Gpt2Error if they differ
 */
export function checkSameKernels(
  out: string,
  before: unknown,
  now: string | undefined,
  folders: readonly string[] = [],
): void {
  if (before === now) return;
  const fix =
    before === undefined ? words`leave out --kernel` : `restore the files of ${folders.join(', ') || 'its kernels'}`;
  throw gpt2Error`cannot resume ${out} with other kernels: it was trained with ${before ?? 'none'}, now there are ${now ?? 'none'}; ${fix}, or start another run`;
}
