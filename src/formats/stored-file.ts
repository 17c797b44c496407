// Opens a file of weights of any format and reads exact parts of it.
import { closeSync } from 'node:fs';
import { Gpt2Error } from '../errors.ts';
import { readFully } from '../files/read.ts';
import { openRegularFile } from '../files/regular-file.ts';

/** Opens a file for `read` and returns its result. The file stays open unless `read` throws. @throws Gpt2Error */
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

/** Fills `into` from byte `position` on. @throws Gpt2Error with `what` as subject */
export function readStored(file: number, into: Uint8Array, position: number, what: string): void {
  try {
    readFully(file, into, position);
  } catch (cause) {
    throw new Gpt2Error(`${what} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
