// The folder names of a checkpoint on its way: temporary while it is written, set aside while another takes its place.
// At no moment is a checkpoint that was whole neither under its name nor set aside, where directory.ts still finds it.
import { closeSync, existsSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { unfinished } from './directory.ts';

/**
 * Where this process writes or removes a checkpoint (`tmp`), or sets one aside while another takes its place (`old`). The path
 * is free: a leftover that could not be removed keeps its own.
 */
export function unfinishedPath(folder: string, name: string, ending: 'tmp' | 'old'): string {
  for (let count = 1; ; count++) {
    const path = join(folder, `.${name}.${process.pid}${count > 1 ? `-${count}` : ''}.${ending}`);
    if (!existsSync(path)) return path;
  }
}

/** A living process of that number is the writer only if it has touched the folder this recently; numbers come again. */
const writingMilliseconds = 3600_000;

/** Waits until the disk has a folder's entries. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/**
 * Gives a finished folder its name. A rename does not replace a folder that has files, so a checkpoint of that name
 * is set aside first, and put back if the rename fails. If it cannot be removed afterwards, `clearLeftovers` reports that.
 */
export function putInPlace(temporary: string, folder: string, name: string): void {
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
  syncFolder(folder);
  if (!replaces) return;
  try {
    rmSync(aside, { recursive: true });
  } catch {
    // The new checkpoint is in place anyway.
  }
}

/**
 * Removes what killed writers left. A checkpoint that they had set aside goes back to its place if that is free.
 * @returns why something could not be removed; undefined if all was
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

/** Whether another process is at work on a folder. This one never is when it asks. */
export function isWriting(writer: number, path: string): boolean {
  if (writer === process.pid) return false;
  try {
    process.kill(writer, 0);
  } catch (error) {
    // EPERM: it lives, and is somebody else's.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  const touched = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return Date.now() - touched < writingMilliseconds;
}
