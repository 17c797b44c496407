// A cache of compiled files in the user's cache folder. A file is written under another name, then renamed, so processes can share the
// folder and be killed at any time. The least recently used files are removed. A file's name contains the sha256 of its content, so a
// file that a disk or a crash has damaged is compiled again, not run. Only this user can write to the folder, and no file changes after
// it was renamed, so the file that is loaded is the file that was checked.
import { hash } from 'node:crypto';
import { readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../../base/errors.ts';
import { cacheFolder, privateCacheFolder } from '../../base/files/cache-folder.ts';
import { hashFile } from '../../base/files/regular-file.ts';

const largestBytes = 256 << 20;

/**
 * The path of the compiled file for a key. If the cache has no intact file, `make` compiles it.
 * @param kind the file's extension, because all outputs of one source ("cubin", "ptx", ...) have the same key
 * @throws Gpt2Error if the folder cannot be written, or other users can write to it; otherwise as `make`
 */
export function cachedCubin(key: string, make: () => Buffer, kind = 'cubin'): string {
  const { folder, known } = orRefuse(() => {
    const folder = privateCacheFolder('kernels');
    const names = readdirSync(folder).filter((name) => name.startsWith(`${key}.`) && name.endsWith(`.${kind}`));
    return { folder, known: names.map((name) => join(folder, name)).find(isIntact) };
  });
  if (known !== undefined) return known;
  const content = make();
  return orRefuse(() => {
    const path = join(folder, `${key}.${hash('sha256', content)}.${kind}`);
    // A unique temporary name, because another process may compile the same source at this time.
    const unfinished = join(folder, `${key}.${process.pid}.${process.hrtime.bigint()}.tmp`);
    try {
      // Executable, because compiled programs are run from the cache.
      writeFileSync(unfinished, content, { flush: true, mode: 0o700 });
      renameSync(unfinished, path);
    } finally {
      rmSync(unfinished, { force: true });
    }
    prune(folder, path);
    return path;
  });
}

function orRefuse<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    throw new Gpt2Error(
      `cannot write the compiled kernels to ${cacheFolder('kernels')}: ${(cause as Error).message}; name another cache in XDG_CACHE_HOME`,
      { cause },
    );
  }
}

/** Whether a cached file's content has the sha256 in its name. If so, sets the file's time of last use; if not, removes the file. */
function isIntact(path: string): boolean {
  try {
    if (hashFile(path) === path.split('.').at(-2)) {
      utimesSync(path, new Date(), new Date());
      return true;
    }
  } catch {
    // Not a regular file, or not readable: counts as damaged.
  }
  rmSync(path, { recursive: true, force: true });
  return false;
}

/** Removes the least recently used files until at most `largestBytes` bytes remain, and temporary files that are over an hour old. */
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
