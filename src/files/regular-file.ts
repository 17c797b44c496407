// Opens files that are to be read whole or at places. A FIFO or a device under a file's name would block or never end.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';

/**
 * Opens a file, for reading alone unless `flags` say otherwise.
 * @throws Error if it is no regular file; the file system's error, with its code
 */
export function openRegularFile(path: string, flags: number = constants.O_RDONLY): number {
  // Without O_NONBLOCK the program stays in the open of a FIFO that nobody writes, and hears no signal.
  const file = openSync(path, flags | constants.O_NONBLOCK);
  if (fstatSync(file).isFile()) return file;
  closeSync(file);
  throw new Error('it is not a file');
}

/** Of a JSON file that describes others: a manifest of 100,000 shards has 13 MB. */
export const largestDescription = 16 << 20;

/**
 * The text of a whole file.
 * @param most bytes that it may have
 * @throws Error as `openRegularFile`, or if the file is larger
 */
export function readTextFile(path: string, most: number = Number.POSITIVE_INFINITY): string {
  const file = openRegularFile(path);
  try {
    const { size } = fstatSync(file);
    if (size > most) throw new Error(`it has ${size} bytes, more than the ${most} that are read`);
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}
