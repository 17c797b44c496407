// Makes written files survive a crash of the machine.
import { fsyncSync, openSync } from 'node:fs';
import { closing } from './regular-file.ts';

/** Syncs a file, or the entries of a folder, to the disk. */
export const syncToDisk = (path: string): void => syncAndClose(openSync(path, 'r'));

/** Syncs an open file, and closes it in any case. */
export const syncAndClose = (file: number): void => closing(file, fsyncSync);
