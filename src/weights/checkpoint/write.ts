// Writes a checkpoint under a temporary name, syncs every file, the manifest last, then renames the folder: a checkpoint with its
// final name is complete. replace.ts and prune.ts replace and remove checkpoints.
import { hash } from 'node:crypto';
import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { argumentKinds, checkGiven, whole } from '../../base/checks/given.ts';
import { attempt, Gpt2Error, NativeError, words } from '../../base/errors.ts';
import { checkedJson } from '../../base/files/checked-json.ts';
import { makeFolder } from '../../base/files/make-folder.ts';
import { syncToDisk } from '../../base/files/regular-file.ts';
import { writeDurably } from '../../data/shards/shard.ts';
import type { ModelConfig } from '../../model/config.ts';
import { checkIdle, type Model } from '../../model/model.ts';
import { type Parameter, parameterTable } from '../../model/parameters.ts';
import { checkState, type StateCopy } from '../../optimizer/state.ts';
import { tokenizerFile } from '../../tokenizer/tokenizer-file.ts';
import { finite, WeightsError } from '../files/layout.ts';
import { manifestFile, optimizerFile, weightsFile } from '../files/names.ts';
import { clearLeftovers, writeInPlace } from '../files/replace.ts';
import { type Values, writeTensors } from '../files/safetensors.ts';
import { checkpointName } from './directory.ts';
import { checkManifest, checkpointVersion, type Manifest } from './manifest.ts';
import { type Keeping, pruneCheckpoints, timeToWrite } from './prune.ts';

export interface State {
  readonly config: ModelConfig;
  readonly weights: Values;
  readonly optimizer: readonly Values[];
}

/** A checkpoint without its tensors. */
export interface CheckpointHead {
  /** The run's folder of checkpoints. */
  readonly folder: string;
  /** Number of updates done. */
  readonly step: number;
  /** The content of tokenizer.json, if the model's tokenizer is not built in. */
  readonly tokenizer?: string | undefined;
  readonly manifest: Pick<
    Manifest,
    'program' | 'configuration' | 'position' | 'logBytes' | 'codePath' | 'shards' | 'timed'
  >;
}

export interface CheckpointToWrite extends CheckpointHead {
  readonly model: Model;
  readonly optimizer: readonly StateCopy[];
}

/**
 * Removes remains of interrupted writes, then writes a checkpoint from the device's memory and returns its path.
 * @throws UsageError for a manifest that `resolveCheckpoint` would refuse, and unless the optimizer state belongs to the trainer
 * that updated the model last; Gpt2Error for a weight that is not finite, before anything is written, or if a write fails
 * @example
 * const { manifest } = resolveCheckpoint('runs/first');
 * const optimizer = trainer.optimizerState.copies;
 * writeCheckpoint({ folder: 'runs/copy/checkpoints', step: 2, manifest, model, optimizer });
 */
export function writeCheckpoint(checkpoint: CheckpointToWrite): string {
  const objects = { manifest: 'object', model: argumentKinds.model, optimizer: 'object' } as const;
  checkGiven(checkpoint, { folder: 'text', step: whole(0), ...objects }, { tokenizer: 'text' });
  const { model, optimizer, ...head } = checkpoint;
  checkState(model, optimizer, true);
  checkIdle(model);
  checkManifest(manifestOf(head, model.config));
  clearLeftovers(head.folder);
  return writeState(head, stateInDevice(model, optimizer), makeFolders);
}

const manifestOf = ({ folder, step, manifest }: CheckpointHead, model: ModelConfig): Omit<Manifest, 'files'> => ({
  // `manifest` may be the whole manifest of another checkpoint: the fields below replace its fields.
  ...manifest,
  format: 'gpt2.ts checkpoint',
  version: checkpointVersion,
  step,
  model,
  time: timeToWrite(folder),
});

/** The weights and optimizer state of a device, read when they are written. */
export function stateInDevice(model: Model, optimizer: readonly StateCopy[]): State {
  const { config } = model;
  const [weights, ...rows] = copiesOf(model, optimizer).map(({ copy, ...named }) => ({
    ...named,
    read: (parameter: Parameter) => copy.read(parameter),
  }));
  return { config, weights: weights!, optimizer: rows };
}

/** The parameter copies of a checkpoint: master weights, then the rows of optimizer state. */
export const copiesOf = ({ config, masters }: Model, optimizer: readonly StateCopy[]) => [
  { prefix: '', parameters: parameterTable(config), copy: masters },
  ...optimizer.map(({ name, parameters, copy }) => ({ prefix: `${name}.`, parameters, copy })),
];

/**
 * Writes a checkpoint and returns its path. A checkpoint of the same step, complete or damaged, is replaced.
 * @throws WeightsError for a weight that is not finite, before anything is written; Gpt2Error if a write fails: the unfinished
 * checkpoint is removed, older ones are untouched
 */
function writeState(head: CheckpointHead, state: State, make = makeInRun): string {
  const { folder, step, tokenizer } = head;
  const { parameters, read } = state.weights;
  const [where, again] = [`nothing is saved in ${folder}`, words`start from finite weights, or with a smaller --lr`];
  for (const parameter of parameters) finite(parameter, read(parameter), where, again);
  const advice = 'make room or write to another folder (older checkpoints are untouched)';
  return writeInPlace({ what: 'checkpoint', folder, name: checkpointName(step), advice }, make, (temporary) => {
    const weights = writeTensors(join(temporary, weightsFile), [state.weights]);
    const optimizer = writeTensors(join(temporary, optimizerFile), state.optimizer);
    const files = [
      { name: weightsFile, ...weights },
      { name: optimizerFile, ...optimizer },
    ];
    if (tokenizer !== undefined) {
      const bytes = Buffer.from(tokenizer);
      writeDurably(join(temporary, tokenizerFile), [bytes]);
      files.push({ name: tokenizerFile, bytes: bytes.length, sha256: hash('sha256', bytes) });
    }
    const whole: Manifest = { ...manifestOf(head, state.config), files };
    writeDurably(join(temporary, manifestFile), [Buffer.from(checkedJson(whole))]);
  });
}

/** Reasons why files could not be removed; training continues. */
export interface TidyResult {
  /** Why remains of interrupted saves could not be removed. */
  readonly clearFailure?: string;
  /** Why checkpoints that --keep no longer keeps could not be removed. */
  readonly pruneFailure?: string;
}

/** The result of a save: the checkpoint's path, or why there is none. */
export interface SaveResult extends TidyResult {
  readonly path?: string;
  readonly failure?: string;
  /** Whether weights are not finite, so that no later save can succeed. */
  readonly isBroken?: boolean;
}

/**
 * Removes remains of interrupted saves, writes a checkpoint, then removes the checkpoints that `keeping` does not keep. Disk errors
 * are returned, not thrown.
 */
export function saveState(head: CheckpointHead, state: State, keeping: Keeping | undefined): SaveResult {
  const clearFailure = clearLeftovers(head.folder);
  const path = onDisk(() => writeState(head, state));
  const isBroken = path instanceof WeightsError;
  if (path instanceof Gpt2Error) return { failure: path.message, isBroken, clearFailure };
  return { path, clearFailure, pruneFailure: prune(head.folder, keeping) };
}

/** Removes the files that `saveState` removes, without a save: the run's last save may have been killed before it removed them. */
export const tidy = (folder: string, keeping: Keeping | undefined): TidyResult => ({
  clearFailure: clearLeftovers(folder),
  pruneFailure: prune(folder, keeping),
});

function prune(folder: string, keeping: Keeping | undefined): string | undefined {
  const error = keeping && onDisk(() => pruneCheckpoints(folder, keeping));
  return error instanceof Gpt2Error ? error.message : undefined;
}

function onDisk<R>(work: () => R): R | Gpt2Error {
  const result = attempt(work);
  if (result instanceof NativeError) throw result;
  return result;
}

/** Creates a folder in an existing run folder. A lost run folder is not recreated: it would lack log and configuration. */
function makeInRun(folder: string): void {
  if (existsSync(folder)) return;
  mkdirSync(folder);
  syncToDisk(dirname(folder));
}

/** Creates a folder and its missing parents, and syncs them to the disk. */
function makeFolders(folder: string): void {
  const first = makeFolder(folder);
  if (first === undefined) return;
  const top = dirname(resolve(first));
  for (let path = resolve(folder); path !== top; path = dirname(path)) syncToDisk(dirname(path));
}
