// Opens regular files, and rejects FIFOs and devices, from which reading could block or never end. Reads files as text or by byte
// ranges, hashes files, and syncs written files to disk.
import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, fsyncSync, openSync, readFileSync, readSync } from 'node:fs';
import { decodeUtf8 } from './strict-text.ts';

/**
 * Opens a file, read-only unless `flags` say otherwise.
 * @throws Error if the path is not a regular file; the file system's error, with its code
 */
export function openRegularFile(path: string, flags: number = constants.O_RDONLY): number {
  // Without O_NONBLOCK, opening a FIFO that has no writer would block the program, and its signal handlers with it.
  const file = openSync(path, flags | constants.O_NONBLOCK);
  if (fstatSync(file).isFile()) return file;
  closeSync(file);
  throw new Error('it is not a regular file');
}

/** Runs `work` on an open file, then closes the file. */
export function closing<R>(file: number, work: (file: number) => R): R {
  try {
    return work(file);
  } finally {
    closeSync(file);
  }
}

/** Size limit, in bytes, of JSON files that describe other files: a manifest of 100,000 shards has 13 MB. */
export const largestDescription = 16 << 20;

/**
 * The bytes of a whole file.
 * @param most largest accepted size in bytes
 * @throws Error as `openRegularFile`, or if the file is larger than `most`
 */
export function readWholeFile(path: string, most: number = Number.POSITIVE_INFINITY): Buffer {
  return closing(openRegularFile(path), (file) => {
    const { size } = fstatSync(file);
    if (size > most) throw new Error(`it has ${size} bytes, more than the limit of ${most}`);
    return readFileSync(file);
  });
}

/** The text of a whole file. @throws Error as `readWholeFile`, or if the file is not UTF-8 */
export const readTextFile = (path: string, most?: number): string => decodeUtf8(readWholeFile(path, most));

/** The most bytes that one system call reads or writes here; the system's limit is 2 GiB. */
export const largestTransfer = 1 << 28;

/** Fills `into` with the file's bytes from `position` on. @throws Error if the file has fewer bytes */
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

/** sha256 of a regular file, in hex. Blocks the thread, 0.5 s per GB. @throws Error of the file system, or as `readFully` */
export const hashFile = (path: string): string =>
  closing(openRegularFile(path), (file) => hashOpenFile(file, fstatSync(file).size));

/** Syncs a file, or the entries of a folder, to disk, so that they survive a crash of the machine. */
export const syncToDisk = (path: string): void => syncAndClose(openSync(path, 'r'));

/** Syncs an open file to disk, then closes the file, also if syncing fails. */
export const syncAndClose = (file: number): void => closing(file, fsyncSync);
