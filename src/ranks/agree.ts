// Checks that all ranks have the same program, configuration and data. Every rank gathers the facts of all ranks and finds the
// same first difference to rank 0's, so that every rank ends with the same error.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type LibraryKind, libraryPath } from '../native/find-library.ts';
import type { Ranks } from './ranks.ts';

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
  const folder = join(dirname(self), '..');
  const isCode = (name: string) => extname(name) === extname(self);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(isCode);
  for (const name of files.sort()) hash.update(name).update(readFileSync(join(folder, name)));
  return hash.update(readFileSync(libraryPath(kind))).digest('hex');
}
