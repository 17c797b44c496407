// Files that were compiled before, in the user's cache folder. An entry is complete or absent, so that processes can share the folder
// and be killed; the entries that were used least recently are removed. An entry's name holds the sha256 of its key and content, so
// that an entry that a disk or a crash damaged is compiled again instead of being run. Only this user can write to the folder, and no
// entry is ever written in place: a file that was checked is the file that is loaded.
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import { cacheFolder, privateCacheFolder } from '../files/cache-folder.ts';
import { openRegularFile } from '../files/regular-file.ts';

const largestBytes = 256 << 20;

/**
 * The path of the compiled file of a key; `make` compiles it if the cache lacks an intact one.
 * @param kind of file; what else a compiler makes of a source has the same key
 * @throws Gpt2Error if the folder cannot be written, or if other users could have written there; otherwise as `make`
 */
export function cachedCubin(key: string, make: () => Buffer, kind = 'cubin'): string {
  const nameOf = (content: Uint8Array): string =>
    `${key}.${createHash('sha256').update(`${key}.${kind}\n`).update(content).digest('hex')}.${kind}`;
  const known = orRefuse(() => {
    const folder = privateCacheFolder('kernels');
    return {
      folder,
      path: intactEntry(folder, (name) => name.startsWith(`${key}.`) && name.endsWith(`.${kind}`), nameOf),
    };
  });
  if (known.path !== undefined) return known.path;
  const content = make();
  return orRefuse(() => {
    const path = join(known.folder, nameOf(content));
    // Named by process and moment: another process may compile the same.
    const unfinished = join(known.folder, `${key}.${process.pid}.${process.hrtime.bigint()}.tmp`);
    try {
      writeFileSync(unfinished, content, { mode: 0o600, flush: true });
      renameSync(unfinished, path);
    } catch (error) {
      rmSync(unfinished, { force: true });
      throw error;
    }
    prune(known.folder, path);
    return path;
  });
}

function orRefuse<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    const why = (cause as Error).message;
    throw new Gpt2Error(
      `cannot write the compiled kernels to ${cacheFolder('kernels')}: ${why}; name another cache in XDG_CACHE_HOME`,
      { cause },
    );
  }
}

/** The path of the entry whose content gives its name. Entries of the key that are damaged are removed. */
function intactEntry(
  folder: string,
  isOfKey: (name: string) => boolean,
  nameOf: (content: Uint8Array) => string,
): string | undefined {
  for (const name of readdirSync(folder).filter(isOfKey)) {
    const path = join(folder, name);
    const content = contentOf(path);
    if (!content || name !== nameOf(content)) {
      rmSync(path, { recursive: true, force: true });
      continue;
    }
    try {
      utimesSync(path, new Date(), new Date());
    } catch {
      // A cache that cannot be written can be read.
    }
    return path;
  }
  return undefined;
}

/** Undefined: the path leads to no regular file, or the file cannot be read. */
function contentOf(path: string): Uint8Array | undefined {
  try {
    const file = openRegularFile(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      return readFileSync(file);
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}

/** Removes the files that were used least recently, until the rest fits; and what a killed process left an hour ago. */
function prune(folder: string, newest: string): void {
  const files = readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    const stat = statSync(path, { throwIfNoEntry: false });
    return stat && path !== newest ? [{ path, bytes: stat.size, used: stat.mtimeMs }] : [];
  });
  let bytes = statSync(newest, { throwIfNoEntry: false })?.size ?? 0;
  for (const file of files.sort((a, b) => b.used - a.used)) {
    const isLeft = file.path.endsWith('.tmp') && file.used < Date.now() - 3_600_000;
    bytes += file.bytes;
    if (isLeft || bytes > largestBytes) rmSync(file.path, { recursive: true, force: true });
  }
}
