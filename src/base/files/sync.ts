// Makes written files survive a crash of the machine.
import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Syncs a file, or the entries of a folder, to the disk. */
export const syncToDisk = (path: string): void => syncAndClose(openSync(path, 'r'));

/** Syncs an open file, and closes it in any case. */
export function syncAndClose(file: number): void {
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
