// Opening a file of weights, whatever its format, and reading exact parts of it.
import { closeSync } from 'node:fs';
import { Gpt2Error } from '../errors.ts';
import { readFully } from '../files/read.ts';
import { openRegularFile } from '../files/regular-file.ts';

/** What `read` makes of the opened file, which stays open; if it throws, the file is closed. @throws Gpt2Error */
export function openStoredFile<R>(path: string, read: (file: number) => R): R {
  let file: number;
  try {
    file = openRegularFile(path);
  } catch (cause) {
    throw new Gpt2Error(`${path} cannot be opened: ${(cause as Error).message}`, { cause });
  }
  try {
    return read(file);
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/** Fills `into` from byte `position` on. @throws Gpt2Error naming `what` was to be read */
export function readStored(file: number, into: Uint8Array, position: number, what: string): void {
  try {
    readFully(file, into, position);
  } catch (cause) {
    throw new Gpt2Error(`${what} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
