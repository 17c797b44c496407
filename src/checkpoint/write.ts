// Writes a checkpoint beside its final name, every file synced, the manifest last, then renames it: under its name a
// checkpoint is whole or not there. Making room, for a new one or by pruning, is in replace.ts and prune.ts.
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Gpt2Error, NativeError } from '../errors.ts';
import { checkedJson } from '../files/checked-json.ts';
import { storedShape, toStored } from '../formats/layout.ts';
import { type WrittenFile, writeSafetensors } from '../formats/safetensors.ts';
import type { ParameterCopy } from '../model/arena.ts';
import type { ModelConfig } from '../model/config.ts';
import type { Model } from '../model/model.ts';
import { type Parameter, parameterTable } from '../model/parameters.ts';
import { writeDurably } from '../shards/shard.ts';
import { checkpointName } from './directory.ts';
import { checkpointVersion, type Manifest, manifestFile, optimizerFile, weightsFile } from './manifest.ts';
import { pruneCheckpoints, timeToWrite } from './prune.ts';
import { clearLeftovers, putInPlace, syncFolder, unfinishedPath } from './replace.ts';

/** AdamW's state. */
export interface Moments {
  readonly m: ParameterCopy;
  readonly v: ParameterCopy;
}

/** A copy of all parameters in a checkpoint: master weights, first and second moments. */
export type StateCopy = 'weights' | 'm' | 'v';

/** Where the numbers of a checkpoint come from. */
export interface State {
  readonly config: ModelConfig;
  /** A parameter's real rows, as they lie in the device. */
  read(copy: StateCopy, parameter: Parameter): Float32Array;
}

/** What a checkpoint says besides its numbers. */
export interface CheckpointHead {
  /** The run's folder of checkpoints. */
  readonly folder: string;
  /** Updates done. */
  readonly step: number;
  readonly manifest: Pick<Manifest, 'program' | 'configuration' | 'position' | 'logBytes' | 'codePath' | 'shards'>;
}

export interface CheckpointToWrite extends CheckpointHead {
  readonly model: Model;
  readonly moments: Moments;
}

/** Removes the remains of interrupted writes, then writes a checkpoint from the device's memory, as `writeState`. */
export function writeCheckpoint({ model, moments, ...head }: CheckpointToWrite): string {
  clearLeftovers(head.folder);
  return writeState(head, stateInDevice(model, moments), makeFolders);
}

/** The state as it is in the device when it is read. */
export const stateInDevice = (model: Model, moments: Moments): State => ({
  config: model.config,
  read: (copy, parameter) => {
    const arena = copy === 'weights' ? model.masters : moments[copy];
    return arena.read(parameter);
  },
});

/**
 * Writes a checkpoint and gives its path. One of the same step, whole or damaged, is replaced.
 * @throws Gpt2Error if it cannot be written; what was written of it is removed then, older checkpoints are untouched
 */
export function writeState({ folder, step, manifest }: CheckpointHead, state: State, make = makeFolder): string {
  const name = checkpointName(step);
  const path = join(folder, name);
  let temporary: string | undefined;
  try {
    make(folder);
    temporary = unfinishedPath(folder, name, 'tmp');
    mkdirSync(temporary);
    const weights = writeTensors(join(temporary, weightsFile), state, ['weights']);
    const optimizer = writeTensors(join(temporary, optimizerFile), state, ['m', 'v']);
    const whole: Manifest = {
      format: 'gpt2.ts checkpoint',
      version: checkpointVersion,
      step,
      model: state.config,
      ...manifest,
      files: [
        { name: weightsFile, ...weights },
        { name: optimizerFile, ...optimizer },
      ],
      time: timeToWrite(folder),
    };
    writeDurably(join(temporary, manifestFile), [Buffer.from(checkedJson(whole))]);
    putInPlace(temporary, folder, name);
  } catch (cause) {
    if (temporary) removeIfPossible(temporary);
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

/** Which checkpoints stay; see `pruneCheckpoints`. */
export interface Keeping {
  readonly keep: number;
  readonly keepEvery?: number;
}

/** Why something could not be removed; no reason to stop. */
export interface TidyResult {
  /** For remains of interrupted saves. */
  readonly clearFailure?: string;
  /** For checkpoints that are no longer kept. */
  readonly pruneFailure?: string;
}

/** The result of a save: the checkpoint's path, or why there is none. */
export interface SaveResult extends TidyResult {
  readonly path?: string;
  readonly failure?: string;
}

/**
 * Removes the remains of interrupted saves, writes a checkpoint, then removes those that are no longer kept. Disk errors are
 * in the result.
 */
export function saveState(head: CheckpointHead, state: State, keeping: Keeping | undefined): SaveResult {
  const clearFailure = clearLeftovers(head.folder);
  let path: string | undefined;
  const failure = refused(() => {
    path = writeState(head, state);
  });
  const pruneFailure = failure === undefined ? prune(head.folder, keeping) : undefined;
  return { path, failure, clearFailure, pruneFailure };
}

/** Removes what `saveState` would, for a run with nothing left to save: its last save may have been killed while removing. */
export const tidy = (folder: string, keeping: Keeping | undefined): TidyResult => ({
  clearFailure: clearLeftovers(folder),
  pruneFailure: prune(folder, keeping),
});

const prune = (folder: string, keeping: Keeping | undefined): string | undefined =>
  keeping && refused(() => pruneCheckpoints(folder, keeping));

/** Runs `work` and returns the disk's error message; undefined if there was no error. */
function refused(work: () => void): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    if (!(error instanceof Gpt2Error) || error instanceof NativeError) throw error;
    return error.message;
  }
}

/** Makes a folder in an existing run folder. A lost run folder is not made again: it would lack log and configuration. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  mkdirSync(folder);
  syncFolder(dirname(folder));
}

/** Makes a folder and its missing parents, and syncs them to the disk. */
function makeFolders(folder: string): void {
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

/** In optimizer.safetensors a tensor's name is its name in model.safetensors behind "m." or "v.". */
const prefixes: Readonly<Record<StateCopy, string>> = { weights: '', m: 'm.', v: 'v.' };

/** Writes copies of all parameters to a new safetensors file. @throws as `writeSafetensors` */
export function writeTensors(path: string, { config, read }: State, copies: readonly StateCopy[]): WrittenFile {
  const tensors = copies.flatMap((copy) =>
    parameterTable(config).map((parameter) => ({
      name: `${prefixes[copy]}${parameter.huggingFaceName}`,
      shape: storedShape(parameter),
      read: () => toStored(parameter, read(copy, parameter)),
    })),
  );
  return writeSafetensors(path, tensors);
}
