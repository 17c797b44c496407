// Paths of this program's cache folders, and their creation.
import { statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { gpt2Error } from '../errors.ts';
import { makeFolder } from './make-folder.ts';

/** The path of a cache folder: XDG_CACHE_HOME/gpt2.ts/NAME, or ~/.cache/gpt2.ts/NAME. The folder may not exist yet. */
export const cacheFolder = (name: string): string =>
  join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'gpt2.ts', name);

/** File mode of folders that only their owner can read and write. */
export const onlyUser = 0o700;

/**
 * Makes a cache folder whose files will be run as code.
 * @throws Gpt2Error if another user owns the folder or can write to it; the file system's error if the folder cannot be made
 */
export function privateCacheFolder(name: string): string {
  const folder = cacheFolder(name);
  makeFolder(folder, onlyUser);
  for (const each of [dirname(folder), folder]) {
    const { uid, mode } = statSync(each);
    if (uid === process.getuid!() && (mode & 0o022) === 0) continue;
    const fault = mode & 0o022 ? 'can be written by other users' : `belongs to another user (uid ${uid})`;
    throw gpt2Error`the cache folder ${each} ${fault}, and its files are run as code: remove it, or name another cache in XDG_CACHE_HOME`;
  }
  return folder;
}
