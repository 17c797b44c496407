// Compares inputs: the shards and kernels of a resumed run with those of its earlier training; the program, configuration and data of
// each rank with rank 0's. Every rank gathers the facts of all ranks and finds the same first difference, so that all end with one error.
import { createHash, hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gpt2Error, words } from '../../base/errors.ts';
import { beginning } from '../../data/shards/dataset-file.ts';
import type { Shard } from '../../data/shards/shard.ts';
import { type LibraryKind, libraryPath } from '../../native/find-library.ts';
import type { Ranks } from '../../ranks/ranks.ts';
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

/** Named values that must be equal on all ranks; a value may be an object with further names. */
type Facts = Readonly<Record<string, unknown>>;

/** Compares every rank's `facts` with rank 0's. @throws RankError, the same on every rank, naming the first fact that differs */
export async function agree(ranks: Ranks, facts: Facts): Promise<void> {
  const all = await ranks.allGather(facts);
  const wanted = flat(all[0]!);
  for (const [rank, facts] of all.entries()) {
    const found = flat(facts);
    for (const name of new Set([...wanted.keys(), ...found.keys()])) {
      const [here, there] = [found, wanted].map((values) => values.get(name) ?? 'not there');
      if (here !== there) throw ranks.disagreement(rank, `${name} is ${here}, at rank 0 ${there}`);
    }
  }
}

/** Flattens nested facts: the path "configuration.batch" maps to the JSON text "4". */
function flat(value: unknown, path: readonly string[] = []): Map<string, string> {
  if (typeof value !== 'object' || value === null) return new Map([[path.join('.'), JSON.stringify(value)]]);
  return new Map(Object.entries(value).flatMap(([name, each]) => [...flat(each, [...path, name])]));
}

/** sha256, in hex, of all code files of the running program (.ts sources, or compiled .js) and of the native library. */
export function codeHash(kind: LibraryKind): string {
  const hash = createHash('sha256');
  const self = fileURLToPath(import.meta.url);
  const folder = join(dirname(self), '../..');
  const isCode = (name: string) => extname(name) === extname(self);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(isCode);
  for (const name of files.sort()) hash.update(name).update(readFileSync(join(folder, name)));
  return hash.update(readFileSync(libraryPath(kind))).digest('hex');
}
