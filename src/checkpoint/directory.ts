// Finds checkpoints: all of a run, the newest that is whole, or the one a path stands for.
import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import { type Manifest, manifestFile, readManifest } from './manifest.ts';

/** A checkpoint whose files are all there, with the sizes and hashes its manifest says. */
export interface FoundCheckpoint {
  readonly path: string;
  readonly manifest: Manifest;
}

export interface DamagedCheckpoint {
  readonly path: string;
  readonly reason: string;
}

/** "step-00000020": the number of updates done. */
export const checkpointName = (step: number): string => `step-${String(step).padStart(8, '0')}`;
const namePattern = /^step-\d{8,}$/;

/** Paths of a folder's checkpoints, the newest last; damaged ones too. */
export function listCheckpoints(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => namePattern.test(name));
  return names.sort((a, b) => Number(a.slice(5)) - Number(b.slice(5))).map((name) => join(folder, name));
}

/** The newest whole checkpoint of a folder, and those that were skipped on the way to it. */
export function newestValidCheckpoint(folder: string): {
  checkpoint: FoundCheckpoint | undefined;
  damaged: DamagedCheckpoint[];
} {
  const damaged: DamagedCheckpoint[] = [];
  for (const path of listCheckpoints(folder).reverse()) {
    try {
      return { checkpoint: verifyCheckpoint(path), damaged };
    } catch (error) {
      if (!(error instanceof Gpt2Error)) throw error;
      damaged.push({ path, reason: error.message });
    }
  }
  return { checkpoint: undefined, damaged };
}

/**
 * The checkpoint that a path stands for: itself, or the newest whole one of a run folder.
 * @throws Gpt2Error if there is none; it names what is damaged
 */
export function resolveCheckpoint(path: string): FoundCheckpoint {
  if (existsSync(join(path, manifestFile))) return verifyCheckpoint(path);
  const { checkpoint, damaged } = newestValidCheckpoint(join(path, 'checkpoints'));
  if (checkpoint) return checkpoint;
  const reasons = damaged.map(({ reason }) => reason).join('; ');
  throw new Gpt2Error(`${path} is neither a checkpoint nor a run with one${reasons && `: ${reasons}`}`);
}

/** @throws Gpt2Error naming the file that is missing, of another size, or changed */
function verifyCheckpoint(path: string): FoundCheckpoint {
  const manifest = readManifest(path);
  for (const { name, bytes, sha256 } of manifest.files) {
    const file = join(path, name);
    if (!existsSync(file)) throw new Gpt2Error(`${file} is missing`);
    const size = statSync(file).size;
    if (size !== bytes) throw new Gpt2Error(`${file} has ${size} bytes, not the ${bytes} of its manifest`);
    if (hashFile(file) !== sha256) throw new Gpt2Error(`${file} has changed since it was written: its sha256 differs`);
  }
  return { path, manifest };
}

function hashFile(path: string): string {
  const hash = createHash('sha256');
  const buffer = Buffer.alloc(4 << 20);
  const file = openSync(path, 'r');
  try {
    for (let count = readSync(file, buffer); count > 0; count = readSync(file, buffer)) hash.update(buffer.subarray(0, count));
  } finally {
    closeSync(file);
  }
  return hash.digest('hex');
}
