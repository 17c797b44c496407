// Removes checkpoints of a run that --keep does not keep. Only valid ones count: a damaged one must not replace a good one.
import { renameSync, rmSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { attempt, Gpt2Error } from '../errors.ts';
import { listCheckpoints, nameOfSetAside, stepOf, verifySizes } from './directory.ts';
import { clearLeftovers, unfinishedPath } from './replace.ts';

/**
 * Removes all checkpoints except the last `keep` written, at least one, and valid ones whose step is a multiple of `keepEvery`.
 * The last written need not have the highest step: a run may have continued from an older checkpoint because a newer one was
 * damaged.
 * @throws Gpt2Error if one cannot be removed
 */
export function pruneCheckpoints(folder: string, { keep, keepEvery }: { keep: number; keepEvery?: number }): void {
  const paths = listCheckpoints(folder);
  const written = new Map(paths.map((path) => [path, timeWritten(path)]));
  const newestLast = paths.toSorted((a, b) => written.get(a)! - written.get(b)!);
  const stays = (path: string) => keepEvery !== undefined && written.get(path)! >= 0 && stepOf(path) % keepEvery === 0;
  for (const path of newestLast.slice(0, -Math.max(1, keep))) if (!stays(path)) remove(path);
}

/**
 * Removes all checkpoints of a folder and the remains of interrupted saves, and nothing else.
 * @throws Gpt2Error if a checkpoint cannot be removed
 */
export function removeCheckpoints(folder: string): void {
  clearLeftovers(folder);
  for (const path of listCheckpoints(folder)) remove(path);
}

/** The latest time that a Date can hold; a manifest may contain any. */
const lastTime = 8.64e15;

/**
 * The time for a new checkpoint: now, but later than any in the folder, so that pruning by time is right even if the clock was
 * set back.
 */
export function timeToWrite(folder: string): string {
  const newest = Math.max(...listCheckpoints(folder).map(timeWritten), 0);
  return new Date(Math.min(Math.max(Date.now(), newest + 1), lastTime)).toISOString();
}

/** The time in a checkpoint's manifest; a damaged one counts as older than all others. */
function timeWritten(path: string): number {
  const found = attempt(() => verifySizes(path));
  return found instanceof Gpt2Error ? -1 : Date.parse(found.manifest.time) || 0;
}

/** Renames before it removes, so that an interrupted removal leaves no partial checkpoint. */
function remove(path: string): void {
  const entry = basename(path);
  try {
    const temporary = unfinishedPath(dirname(path), nameOfSetAside(entry) ?? entry, 'tmp');
    renameSync(path, temporary);
    rmSync(temporary, { recursive: true });
  } catch (cause) {
    throw new Gpt2Error(`cannot remove the old checkpoint ${path}: ${(cause as Error).message}`, { cause });
  }
}
