// Replaces checkpoint folders by renames. A new folder has a temporary name until it is complete. Then an old folder of the same
// step is set aside (renamed), and removed when the new one has its final name. directory.ts also finds a folder that is set aside.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error, orElse } from '../../base/errors.ts';
import { syncToDisk } from '../../base/files/regular-file.ts';

const unfinishedPattern = /^\.(step-\d{8,})\.(\d+)(?:-\d+)?\.(tmp|old)$/;

/**
 * The components of a folder name under which a process writes, removes or sets aside a checkpoint; undefined
 * for any other name. A checkpoint that is set aside remains the checkpoint of its step until the new one is in place.
 */
export function unfinished(entry: string) {
  const [, name, process, ending] = unfinishedPattern.exec(entry) ?? [];
  return name === undefined ? undefined : { name, process: Number(process), isSetAside: ending === 'old' };
}

/** An unused path for a checkpoint that is being written or removed (`tmp`), or set aside for a new one (`old`). */
export function unfinishedPath(folder: string, name: string, ending: 'tmp' | 'old'): string {
  for (let count = 1; ; count++) {
    const path = join(folder, `.${name}.${process.pid}${count > 1 ? `-${count}` : ''}.${ending}`);
    if (!existsSync(path)) return path;
  }
}

/** Time after a folder's last change in which the process in its name counts as its writer: later, another process may have the id. */
const writingMilliseconds = 3600_000;

/**
 * Writes the files of `folder`/`name` under a temporary name, and puts them in place. Returns the path.
 * @throws Gpt2Error if the file system refuses; the unfinished folder is removed, an older one with the name is untouched
 */
export function writeInPlace(
  { what, folder, name, advice }: { what: string; folder: string; name: string; advice?: string },
  make: (folder: string) => void,
  write: (temporary: string) => void,
): string {
  const path = join(folder, name);
  let temporary: string | undefined;
  try {
    make(folder);
    temporary = unfinishedPath(folder, name, 'tmp');
    mkdirSync(temporary);
    write(temporary);
    putInPlace(temporary, folder, name);
  } catch (cause) {
    // If this removal fails too, the next write removes the folder (clearLeftovers).
    if (temporary) removeIfPossible(temporary);
    // An error without a file-system code does not come from the disk: the device failed, or there is a bug.
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === undefined && !isOfFiles(cause)) throw cause;
    throw new Gpt2Error(`cannot write the ${what} ${path}: ${message}`, { cause, advice });
  }
  return path;
}

/** Whether an error is a Gpt2Error that the file system caused. */
const isOfFiles = (error: unknown): boolean =>
  error instanceof Gpt2Error && (error.cause as NodeJS.ErrnoException | undefined)?.code !== undefined;

/**
 * Gives a finished folder its final name. A rename cannot replace a folder that has files, so an older checkpoint with the name
 * is set aside first, and put back if the rename fails. If the older checkpoint cannot be removed later, `clearLeftovers` reports it.
 */
function putInPlace(temporary: string, folder: string, name: string): void {
  const path = join(folder, name);
  const aside = unfinishedPath(folder, name, 'old');
  const replaces = existsSync(path);
  if (replaces) renameSync(path, aside);
  try {
    renameSync(temporary, path);
  } catch (error) {
    if (replaces) renameSync(aside, path);
    throw error;
  }
  syncToDisk(folder);
  if (replaces) removeIfPossible(aside);
}

export const removeIfPossible = (path: string): void =>
  orElse(undefined, () => rmSync(path, { recursive: true, force: true }));

/**
 * Removes the remains of killed writers. A checkpoint that was set aside gets its final name back if the name is free.
 * @returns why something could not be removed; undefined if everything was removed
 */
export function clearLeftovers(folder: string): string | undefined {
  const failures: string[] = [];
  const attempt = (path: string, work: () => void) => {
    try {
      work();
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      if (code !== 'ENOENT') failures.push(`${path}: ${message}`);
    }
  };
  attempt(folder, () => {
    for (const entry of readdirSync(folder)) attempt(join(folder, entry), () => clear(folder, entry));
  });
  if (failures.length === 0) return undefined;
  const more = failures.length > 1 ? ` (and ${failures.length - 1} more)` : '';
  return `cannot remove the remains of an interrupted save, ${failures[0]}${more}; remove it by hand`;
}

function clear(folder: string, entry: string): void {
  const left = unfinished(entry);
  const path = join(folder, entry);
  if (!left || isWriting(left.process, path)) return;
  const place = join(folder, left.name);
  if (left.isSetAside && !existsSync(place)) renameSync(path, place);
  else rmSync(path, { recursive: true, force: true });
}

/** Whether the process `writer` is writing a folder. This process is not: it never clears a folder while it writes. */
export function isWriting(writer: number, path: string): boolean {
  if (writer === process.pid) return false;
  try {
    process.kill(writer, 0);
  } catch (error) {
    // EPERM: the process runs, but as another user.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  const touched = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return Date.now() - touched < writingMilliseconds;
}
