// Writes a checkpoint beside its final name, every file synced, the manifest last, then renames it: under its name a
// checkpoint is whole or not there.
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import type { Model } from '../model/model.ts';
import { type ParameterArena, parameterTable } from '../model/parameters.ts';
import { writeDurably } from '../shards/shard.ts';
import { checkpointName, listCheckpoints } from './directory.ts';
import { storedShape, toStored } from './layout.ts';
import { checkpointVersion, type Manifest, manifestFile, optimizerFile, weightsFile } from './manifest.ts';
import { type TensorToWrite, writeSafetensors } from './safetensors.ts';

/** AdamW's state. */
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
 * Writes a checkpoint and gives its path. One of the same step is replaced.
 * @throws Gpt2Error if it cannot be written; older checkpoints are untouched then
 */
export function writeCheckpoint({ folder, step, model, moments, manifest }: CheckpointToWrite): string {
  const path = join(folder, checkpointName(step));
  const temporary = join(folder, `.${checkpointName(step)}.${process.pid}.tmp`);
  try {
    mkdirSync(folder, { recursive: true });
    // What killed writers have left.
    for (const name of readdirSync(folder)) if (/^\.step-.*\.tmp$/.test(name)) rmSync(join(folder, name), { recursive: true });
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
    replace(temporary, path);
    syncFolder(folder);
  } catch (cause) {
    rmSync(temporary, { recursive: true, force: true });
    throw new Gpt2Error(`cannot write the checkpoint ${path}: ${(cause as Error).message}`, { cause });
  }
  return path;
}

/** A rename does not replace a folder that has files: the old one steps aside first. */
function replace(temporary: string, path: string): void {
  const aside = `${temporary.slice(0, -'.tmp'.length)}.old.tmp`;
  let hadOld = true;
  try {
    renameSync(path, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    hadOld = false;
  }
  renameSync(temporary, path);
  if (hadOld) rmSync(aside, { recursive: true });
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Removes all but the newest `keep` checkpoints (at least one stays). */
export function pruneCheckpoints(folder: string, keep: number): void {
  for (const path of listCheckpoints(folder).slice(0, -Math.max(1, keep))) rmSync(path, { recursive: true });
}

const tensorsOf = (model: Model, arena: ParameterArena, prefix = ''): TensorToWrite[] =>
  parameterTable(model.config).map((parameter) => ({
    name: `${prefix}${parameter.huggingFaceName}`,
    shape: storedShape(parameter),
    read: () => toStored(parameter, arena.get(parameter.name)),
  }));
