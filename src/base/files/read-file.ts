// Reads exact ranges of open files, and hashes whole files.
import { createHash } from 'node:crypto';
import { fstatSync, readSync } from 'node:fs';
import { closing, openRegularFile } from './regular-file.ts';

/** Bytes read or written by one call; the system's limit is 2 GiB. */
export const largestTransfer = 1 << 28;

/** Fills `into` from byte `position` on. @throws Error if the file ends before */
export function readFully(file: number, into: Uint8Array, position: number): void {
  for (let done = 0; done < into.length; ) {
    const count = readSync(file, into, done, Math.min(into.length - done, largestTransfer), position + done);
    if (count === 0) throw new Error('it ended early: it changed while it was being read');
    done += count;
  }
}

/** sha256 of the first `size` bytes of an open file, in hex. @throws Error as `readFully` */
export function hashOpenFile(file: number, size: number): string {
  const hash = createHash('sha256');
  const chunk = new Uint8Array(4 << 20);
  for (let done = 0; done < size; done += chunk.length) {
    const part = chunk.subarray(0, Math.min(chunk.length, size - done));
    readFully(file, part, done);
    hash.update(part);
  }
  return hash.digest('hex');
}

/** sha256 of a regular file, in hex. It blocks: 0.5 s per GB. @throws Error of the file system, or as `readFully` */
export const hashFile = (path: string): string =>
  closing(openRegularFile(path), (file) => hashOpenFile(file, fstatSync(file).size));
