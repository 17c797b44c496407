// Removes checkpoints of a run that --keep does not keep. A damaged checkpoint counts as the oldest, so that no valid
// checkpoint is removed in its place.
import { renameSync, rmSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { attempt, explained, Gpt2Error } from '../../base/errors.ts';
import { clearLeftovers, unfinishedPath } from '../files/replace.ts';
import { listCheckpoints, nameOfSetAside, stepOf, verifySizes } from './directory.ts';
import type { Manifest } from './manifest.ts';

/** Options that say which checkpoints stay; see `pruneCheckpoints`. */
export interface Keeping {
  readonly keep: number;
  readonly keepEvery?: number;
  readonly onlyTimed?: boolean;
}

/**
 * Removes old checkpoints. The `keep` checkpoints written last stay; if `keep` is 0, one stays. Valid checkpoints whose step is a
 * multiple of `keepEvery` stay too. With `onlyTimed`, only valid checkpoints of timed saves are counted and removed. The checkpoint
 * written last need not have the highest step: a run may have continued from an older one because a newer one was damaged.
 * @throws Gpt2Error if a checkpoint cannot be removed
 */
export function pruneCheckpoints(folder: string, { keep, keepEvery, onlyTimed }: Keeping): void {
  const manifests = listCheckpoints(folder).map((path) => [path, manifestOf(path)] as const);
  const governed = manifests.filter(([, manifest]) => !onlyTimed || manifest?.timed);
  const written = new Map(governed.map(([path, manifest]) => [path, timeIn(manifest)]));
  const newestLast = [...written.keys()].sort((a, b) => written.get(a)! - written.get(b)!);
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

/** The latest time that a Date can hold, in milliseconds; a manifest may contain any time. */
const lastTime = 8.64e15;

/** The time for a new checkpoint's manifest, by which pruning orders: now or, after the clock was set back, 1 ms after the newest. */
export function timeToWrite(folder: string): string {
  const newest = Math.max(...listCheckpoints(folder).map((path) => timeIn(manifestOf(path))), 0);
  return new Date(Math.min(Math.max(Date.now(), newest + 1), lastTime)).toISOString();
}

/** The manifest of a checkpoint; undefined if it is damaged. */
function manifestOf(path: string): Manifest | undefined {
  const found = attempt(() => verifySizes(path));
  return found instanceof Gpt2Error ? undefined : found.manifest;
}

/** The time of writing in a manifest, in milliseconds; -1 if the checkpoint is damaged: it counts as the oldest. */
const timeIn = (manifest: Manifest | undefined): number => (manifest ? Date.parse(manifest.time) || 0 : -1);

/** Removes a checkpoint. It is renamed first, so that an interrupted removal leaves no partial checkpoint. */
function remove(path: string): void {
  const entry = basename(path);
  explained(`cannot remove the old checkpoint ${path}`, undefined, () => {
    const temporary = unfinishedPath(dirname(path), nameOfSetAside(entry) ?? entry, 'tmp');
    renameSync(path, temporary);
    rmSync(temporary, { recursive: true });
  });
}
