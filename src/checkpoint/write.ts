// Writes a checkpoint beside its final name, every file synced, the manifest last, then renames it: under its name a
// checkpoint is whole or not there. Making room, for a new one or by pruning, is in replace.ts and prune.ts.
import { mkdirSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import type { Model } from '../model/model.ts';
import { type ParameterArena, parameterTable } from '../model/parameters.ts';
import { writeDurably } from '../shards/shard.ts';
import { checkpointName } from './directory.ts';
import { storedShape, toStored } from './layout.ts';
import { checkpointVersion, type Manifest, manifestFile, optimizerFile, weightsFile } from './manifest.ts';
import { clearLeftovers, putInPlace, syncFolder, temporaryName } from './replace.ts';
import { type TensorToWrite, writeSafetensors } from './safetensors.ts';

export { pruneCheckpoints } from './prune.ts';

/** AdamW's state. In optimizer.safetensors a tensor's name is its name in model.safetensors behind "m." or "v.". */
export interface Moments {
  readonly m: ParameterArena;
  readonly v: ParameterArena;
}

export interface CheckpointToWrite {
  /** The run's folder of checkpoints. */
  readonly folder: string;
  /** Updates done. */
  readonly step: number;
  readonly model: Model;
  readonly moments: Moments;
  readonly manifest: Pick<Manifest, 'program' | 'configuration' | 'position' | 'logBytes' | 'codePath' | 'shards'>;
}

/**
 * Writes a checkpoint and gives its path. One of the same step, whole or damaged, is replaced.
 * @throws Gpt2Error if it cannot be written; what was written of it is removed then, older checkpoints are untouched
 */
export function writeCheckpoint({ folder, step, model, moments, manifest }: CheckpointToWrite): string {
  const name = checkpointName(step);
  const path = join(folder, name);
  const temporary = join(folder, temporaryName(name));
  try {
    makeFolder(folder);
    clearLeftovers(folder);
    mkdirSync(temporary);
    const weights = writeSafetensors(join(temporary, weightsFile), tensorsOf(model, model.masters));
    const optimizer = writeSafetensors(join(temporary, optimizerFile), [
      ...tensorsOf(model, moments.m, 'm.'),
      ...tensorsOf(model, moments.v, 'v.'),
    ]);
    const whole: Manifest = {
      format: 'gpt2.ts checkpoint',
      version: checkpointVersion,
      step,
      model: model.config,
      ...manifest,
      files: [
        { name: weightsFile, ...weights },
        { name: optimizerFile, ...optimizer },
      ],
      time: new Date().toISOString(),
    };
    writeDurably(join(temporary, manifestFile), [Buffer.from(`${JSON.stringify(whole, null, 2)}\n`)]);
    putInPlace(temporary, folder, name);
  } catch (cause) {
    removeIfPossible(temporary);
    // Anything without the file system's code is no matter of disks: a device that failed, a defect of ours.
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === undefined && !isOfFiles(cause)) throw cause;
    throw new Gpt2Error(
      `cannot write the checkpoint ${path}: ${message}; make room or name another --out (older checkpoints are untouched)`,
      { cause },
    );
  }
  return path;
}

/** Every folder on the way that was not there yet is on the disk afterwards. */
function makeFolder(folder: string): void {
  const first = mkdirSync(folder, { recursive: true });
  if (first === undefined) return;
  const top = dirname(resolve(first));
  for (let path = resolve(folder); path !== top; path = dirname(path)) syncFolder(dirname(path));
}

/** Fails on the disk that has just failed; then the next write removes it (clearLeftovers). */
function removeIfPossible(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // The error that matters is the one that led here.
  }
}

/** Whether a Gpt2Error stands for one of the file system. */
const isOfFiles = (error: unknown): boolean =>
  error instanceof Gpt2Error && (error.cause as NodeJS.ErrnoException | undefined)?.code !== undefined;

const tensorsOf = (model: Model, arena: ParameterArena, prefix = ''): TensorToWrite[] =>
  parameterTable(model.config).map((parameter) => ({
    name: `${prefix}${parameter.huggingFaceName}`,
    shape: storedShape(parameter),
    read: () => toStored(parameter, arena.get(parameter.name)),
  }));
