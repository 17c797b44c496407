// Makes folders, with their parents, on any file system.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder and its missing parents. Node's mkdirSync with `recursive` never returns in a folder such as /proc, where making
 * any folder fails with ENOENT.
 * @param mode permissions of the folders that are made, less the process's umask
 * @returns the outermost folder that was made; undefined if the folder existed
 * @throws the file system's error
 */
export function makeFolder(path: string, mode = 0o777): string | undefined {
  let outermost: string | undefined;
  if (!existsSync(path) && !existsSync(dirname(path))) outermost = makeFolder(dirname(path), mode);
  try {
    mkdirSync(path, mode);
  } catch (error) {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return outermost;
    throw error;
  }
  return outermost ?? path;
}
