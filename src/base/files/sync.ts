// Makes written files survive a crash of the machine.
import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Syncs a file, or the entries of a folder, to the disk. */
export function syncToDisk(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
