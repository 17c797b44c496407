// Cubins that were compiled before, in the user's cache folder. A file is complete or absent, so that processes can share it, and
// be killed; those that were used least recently are removed.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import { cacheFolder } from '../files/cache-folder.ts';

const largestBytes = 256 << 20;

/**
 * The path of the cubin of a key; `make` compiles it if it is not there.
 * @param kind of file; what else a compiler makes of a source has the same key
 * @throws Gpt2Error if the folder cannot be written
 */
export function cachedCubin(key: string, make: () => Buffer, kind = 'cubin'): string {
  const folder = cacheFolder('kernels');
  const path = join(folder, `${key}.${kind}`);
  const now = new Date();
  try {
    utimesSync(path, now, now);
    return path;
  } catch {
    // It is not there.
  }
  const cubin = make();
  // Of this process and moment: another process may compile the same.
  const unfinished = join(folder, `${key}.${process.pid}.${process.hrtime.bigint()}.tmp`);
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(unfinished, cubin);
    renameSync(unfinished, path);
  } catch (cause) {
    if (existsSync(unfinished)) rmSync(unfinished);
    throw new Gpt2Error(
      `cannot write the compiled kernels to ${folder}: ${(cause as Error).message}; name another cache in XDG_CACHE_HOME`,
      { cause },
    );
  }
  prune(folder, path);
  return path;
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
    if (isLeft || bytes > largestBytes) rmSync(file.path, { force: true });
  }
}
