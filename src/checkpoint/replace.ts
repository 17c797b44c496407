// The folder names of a checkpoint on its way: temporary while it is written, set aside while another takes its place.
// At no moment is a checkpoint that was whole neither under its name nor set aside, where directory.ts still finds it.
import { closeSync, existsSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { nameOfSetAside, setAsideName } from './directory.ts';

/** Under which a checkpoint is written, or removed, by this process. */
export const temporaryName = (name: string): string => `.${name}.${process.pid}.tmp`;

const leftover = /^\.step-\d{8,}\.(\d+)\.(tmp|old)$/;

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
 * steps aside first, and comes back if the rename fails.
 */
export function putInPlace(temporary: string, folder: string, name: string): void {
  const path = join(folder, name);
  const aside = join(folder, setAsideName(name, process.pid));
  const replaces = existsSync(path);
  if (replaces) renameSync(path, aside);
  try {
    renameSync(temporary, path);
  } catch (error) {
    if (replaces) renameSync(aside, path);
    throw error;
  }
  syncFolder(folder);
  if (replaces) rmSync(aside, { recursive: true });
}

/** Removes what killed writers have left; what they had set aside goes back in its place if that is empty. */
export function clearLeftovers(folder: string): void {
  for (const entry of readdirSync(folder)) {
    const writer = Number(leftover.exec(entry)?.[1]);
    const path = join(folder, entry);
    if (Number.isNaN(writer) || isWriting(writer, path)) continue;
    const name = nameOfSetAside(entry);
    if (name && !existsSync(join(folder, name))) renameSync(path, join(folder, name));
    else rmSync(path, { recursive: true, force: true });
  }
}

/** Whether another process is at work on a folder. This one never is when it asks. */
function isWriting(writer: number, path: string): boolean {
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
