// Opening a file of weights, whatever its format, and reading exact parts of it.
import { closeSync, readSync } from 'node:fs';
import { Gpt2Error } from '../errors.ts';
import { openRegularFile } from '../files/regular-file.ts';

/** Bytes read or written by one call, which the system limits to 2 GiB. */
export const largestTransfer = 1 << 28;

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
export function readFully(file: number, into: Uint8Array, position: number, what: string): void {
  try {
    for (let done = 0; done < into.length; ) {
      const count = readSync(file, into, done, Math.min(into.length - done, largestTransfer), position + done);
      if (count === 0) throw new Error('it ended early: it changed while it was being read');
      done += count;
    }
  } catch (cause) {
    throw new Gpt2Error(`${what} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
