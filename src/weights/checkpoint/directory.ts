// Finds and verifies checkpoints, without changing the disk: all checkpoints of a run, the newest valid one, or one at a path.
// Remains of interrupted writes (write.ts) are ignored, except for a complete checkpoint that was set aside for a new one.
import { existsSync, lstatSync, readdirSync, type Stats } from 'node:fs';
import { basename, join } from 'node:path';
import { checkArguments } from '../../base/checks/given.ts';
import { attempt, explained, Gpt2Error, gpt2Error } from '../../base/errors.ts';
import { hashFile } from '../../base/files/regular-file.ts';
import { checkConfig } from '../../model/config.ts';
import { parameterCount } from '../../model/parameters.ts';
import { bytesOf } from '../../native/element-types.ts';
import { manifestFile, weightsFile } from '../files/names.ts';
import { unfinished } from '../files/replace.ts';
import { type Manifest, readManifest } from './manifest.ts';

/** A checkpoint whose files all have the sizes and hashes of its manifest. */
export interface FoundCheckpoint {
  readonly path: string;
  readonly manifest: Manifest;
}

export interface DamagedCheckpoint {
  readonly path: string;
  readonly reason: string;
}

/** The name of a checkpoint, "step-00000020", from the number of updates done. */
export const checkpointName = (step: number): string => `step-${String(step).padStart(8, '0')}`;
const namePattern = /^step-(\d{8,})$/;

/** The final name, such as "step-00000020", of a checkpoint that was set aside (files/replace.ts); undefined for any other entry. */
export function nameOfSetAside(entry: string): string | undefined {
  const found = unfinished(entry);
  return found?.isSetAside ? found.name : undefined;
}

/** Whether an entry of a folder of checkpoints has a name that this program uses. */
export const isOwnEntry = (entry: string): boolean => namePattern.test(entry) || unfinished(entry) !== undefined;

/** The step, a number of updates, in the name of a checkpoint's folder, set aside or not. */
export const stepOf = (path: string): number => Number(/step-(\d+)/.exec(basename(path))?.[1]);

/**
 * Paths of a folder's checkpoints, damaged ones included, the newest last; an empty list if the folder does not exist.
 * @example const newest = listCheckpoints('runs/first/checkpoints').at(-1);
 */
export function listCheckpoints(folder: string): string[] {
  checkArguments({ folder });
  const names = namesIn(folder);
  const entries = names.filter((name) => namePattern.test(name));
  for (const entry of names) {
    const name = nameOfSetAside(entry);
    if (name && !entries.includes(name)) entries.push(entry);
  }
  return entries.sort((a, b) => stepOf(a) - stepOf(b)).map((entry) => join(folder, entry));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw new Gpt2Error(`the checkpoints in ${folder} cannot be listed: ${message}`, { cause });
  }
}

/** The newest checkpoint whose manifest can be read; its other files are not checked. */
export const newestManifest = (folder: string): FoundCheckpoint | undefined =>
  newestValidCheckpoint(folder, (path) => ({ path, manifest: readManifest(path) })).checkpoint;

/**
 * Finds the newest valid checkpoint of a folder, and the newer damaged ones, the newest first.
 * @param read throws a Gpt2Error if the checkpoint counts as damaged
 */
export function newestValidCheckpoint(
  folder: string,
  read: (path: string) => FoundCheckpoint = verifyCheckpoint,
): { checkpoint: FoundCheckpoint | undefined; damaged: DamagedCheckpoint[] } {
  const damaged: DamagedCheckpoint[] = [];
  for (const path of listCheckpoints(folder).reverse()) {
    const checkpoint = attempt(() => read(path));
    if (!(checkpoint instanceof Gpt2Error)) return { checkpoint, damaged };
    damaged.push({ path, reason: checkpoint.message });
  }
  return { checkpoint: undefined, damaged };
}

/**
 * Finds the checkpoint that a path names: a checkpoint, or the newest valid one in a run folder or a checkpoints folder.
 * `damaged`: newer checkpoints that were skipped.
 * @param wanted kinds of paths to name in errors
 * @throws Gpt2Error if there is none, listing the damaged ones
 * @example
 * const checkpoint = resolveCheckpoint('runs/first');
 * console.log(checkpoint.manifest.step, checkpoint.manifest.model);
 */
export function resolveCheckpoint(
  path: string,
  wanted = 'a run or a checkpoint folder',
): FoundCheckpoint & { readonly damaged: readonly DamagedCheckpoint[] } {
  checkArguments({ path });
  if (!existsSync(path)) throw gpt2Error`${path} does not exist; name ${wanted}`;
  if (existsSync(join(path, manifestFile))) {
    const found = attempt(() => verifyCheckpoint(path));
    if (!(found instanceof Gpt2Error)) return { ...found, damaged: [] };
    throw new Gpt2Error(`${found.message}; name another checkpoint`, { cause: found });
  }
  const inRun = join(path, 'checkpoints');
  const { checkpoint, damaged } = newestValidCheckpoint(existsSync(inRun) ? inRun : path);
  if (checkpoint) return { ...checkpoint, damaged };
  if (damaged.length > 0) {
    throw gpt2Error`${path} has no valid checkpoint: ${damaged.map(({ reason }) => reason).join('; ')}; name another run`;
  }
  throw gpt2Error`${path} is neither a checkpoint nor a run with one; name ${wanted}`;
}

/** Reads a folder's manifest and compares every file with it. @throws Gpt2Error naming the file that is missing or changed */
export function verifyCheckpoint(path: string): FoundCheckpoint {
  const found = verifySizes(path);
  verifyContents(path, found.manifest.files);
  return found;
}

/** Compares files with a manifest. @throws Gpt2Error naming the file whose size or hash differs */
export function verifyContents(path: string, files: Manifest['files']): void {
  for (const { name, bytes, sha256 } of files) {
    const file = join(path, name);
    checkSize(file, bytes);
    if (checkpointHash(file) !== sha256) throw gpt2Error`${file} has changed since it was written: its sha256 differs`;
  }
}

/** As `verifyCheckpoint`, but compares only the sizes of files. @throws Gpt2Error */
export function verifySizes(path: string): FoundCheckpoint {
  checkFile(join(path, manifestFile));
  const manifest = readManifest(path);
  for (const { name, bytes } of manifest.files) checkSize(join(path, name), bytes);
  checkModelSize(path, manifest);
  return { path, manifest };
}

/** Refuses a model whose sizes are impossible, or too large for the weights file, before memory is allocated. @throws Gpt2Error */
export function checkModelSize(path: string, { model, files }: Pick<Manifest, 'model' | 'files'>): void {
  explained(`${path} describes an impossible model`, undefined, () => checkConfig(model));
  const bytes = files.find(({ name }) => name === weightsFile)?.bytes ?? 0;
  const parameters = parameterCount(model);
  if (parameters * bytesOf('fp32') <= bytes) return;
  throw gpt2Error`${path} describes a model of ${parameters} parameters, but ${weightsFile} has ${bytes} bytes`;
}

/** Refuses anything but a regular file, such as a link, which could lead out of the folder. @throws Gpt2Error */
function checkFile(file: string): Stats {
  const stats = explained(`${file} cannot be read`, undefined, () => lstatSync(file, { throwIfNoEntry: false }));
  if (!stats) throw gpt2Error`${file} is missing`;
  if (stats.isSymbolicLink()) throw gpt2Error`${file} is a link; replace it by the file itself`;
  if (!stats.isFile()) throw gpt2Error`${file} is not a file`;
  return stats;
}

function checkSize(file: string, bytes: number): void {
  const { size } = checkFile(file);
  if (size !== bytes) throw gpt2Error`${file} has ${size} bytes, not the ${bytes} of its manifest`;
}

/** sha256 of a file, in hex. @throws Gpt2Error if it cannot be read */
export const checkpointHash = (path: string): string =>
  explained(`${path} cannot be read`, undefined, () => hashFile(path));
