// Writes an export under a temporary name, as writeDurably does, and renames it when complete. The next export to the same path
// removes the leftovers of killed exports, and nothing else.
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { syncToDisk } from '../../base/files/regular-file.ts';
import { temporaryPath } from '../../data/shards/shard.ts';
import { weightsFile } from '../files/names.ts';
import { isWriting, removeIfPossible } from '../files/replace.ts';

/** Whether a folder can be written at `path`: nothing is there, or only leftovers of a killed export. */
export function isFreeForFolder(path: string, ourNames: readonly string[]): boolean {
  if (!existsSync(path)) return true;
  if (!statSync(path).isDirectory()) return false;
  const left = leftovers(stagedInside(path));
  const others = readdirSync(path).filter((entry) => !left.includes(join(path, entry)));
  // The weights get their name last: if they are missing beside temporary files, the other files are from a killed export.
  return (
    others.length === 0 || (left.length > 0 && others.every((name) => ourNames.includes(name) && name !== weightsFile))
  );
}

/** Makes a folder with the files that `write` writes. Moves them into an existing folder, which may be a mount point. */
export function writeFolder(path: string, write: (folder: string) => void): void {
  const isThere = existsSync(path);
  const staged = isThere ? stagedInside(path) : path;
  clearInterruptedExports(staged);
  const temporary = temporaryPath(staged);
  try {
    mkdirSync(temporary);
    write(temporary);
    syncToDisk(temporary);
    if (!isThere) renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    throw error;
  }
  if (isThere) {
    const others = readdirSync(temporary).filter((name) => name !== weightsFile);
    for (const name of [...others, weightsFile]) renameSync(join(temporary, name), join(path, name));
    rmdirSync(temporary);
  }
  syncToDisk(isThere ? path : dirname(path));
}

export function clearInterruptedExports(path: string): void {
  // Leftovers of another user cannot be removed, and do no harm.
  for (const left of leftovers(path)) removeIfPossible(left);
}

const stagedInside = (folder: string): string => join(folder, basename(folder));

function leftovers(path: string): string[] {
  const folder = dirname(path);
  const start = `${basename(path)}.`;
  const paths: string[] = [];
  for (const entry of readdirSync(folder)) {
    if (!entry.startsWith(start)) continue;
    const writer = /^(\d+)\.tmp$/.exec(entry.slice(start.length))?.[1];
    if (writer !== undefined && !isWriting(Number(writer), join(folder, entry))) paths.push(join(folder, entry));
  }
  return paths;
}
