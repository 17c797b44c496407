// Examines a folder before a data set is made in it. Another data set is replaced only with --overwrite, unknown files never.
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, explained, Gpt2Error, gpt2Error, onCommandLine, orElse } from '../base/errors.ts';
import { checkedJson } from '../base/files/checked-json.ts';
import { makeFolder } from '../base/files/make-folder.ts';
import { hashFile } from '../base/files/regular-file.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { tokenizerFile } from '../tokenizer/tokenizer-file.ts';
import {
  type Dataset,
  datasetFile,
  readDataset,
  readDatasetTokenizer,
  roleOfName,
  unfinishedFolder,
} from './shards/dataset-file.ts';
import { writeDurably } from './shards/shard.ts';

export interface Prepared {
  readonly folder: string;
  /** Whether the data set existed before and is intact. */
  readonly present: boolean;
  readonly dataset: Dataset;
}

export type Standing = ReturnType<typeof standingIn>;

/**
 * Examines a folder in which shards named after `prefix` are to be made.
 * @throws Gpt2Error if the folder cannot be read, or holds other shards, which training would read too
 */
export function standingIn(folder: string, prefix: string) {
  if (!existsSync(folder)) return { dataset: undefined, replaced: [] as string[], isFinished: false };
  const dataset = orElse(undefined, () => readDataset(folder));
  const listed = new Set(dataset?.shards.map(({ file }) => file));
  const shards = writingTo(folder, () => readdirSync(folder).filter((name) => roleOfName(name).length > 0));
  const isOurs = (name: string) =>
    name.startsWith(`${prefix}_`) && /^(train|val)(_\d{6,})?\.bin$/.test(name.slice(prefix.length + 1));
  const other = shards.find((name) => !isOurs(name) && !listed.has(name));
  if (other)
    throw gpt2Error`${folder} holds ${other}, which belongs to another data set: name another folder${onCommandLine(' with --out')}`;
  const isCutOff = shards.length === 0 || existsSync(join(folder, unfinishedFolder));
  const replaced = dataset?.tokenizerSha256 === undefined ? shards : [...shards, tokenizerFile];
  return {
    /** The content of dataset.json; undefined if it is missing or damaged. */
    dataset,
    /** Files that a new data set removes: shards with the new data set's names, and the files of the present data set. */
    replaced,
    /** Whether the folder holds a complete data set: a process killed while it moved shards into the folder leaves only some shards. */
    isFinished: existsSync(join(folder, datasetFile)) || !isCutOff,
  };
}

/** The error for a folder that holds `what`, which may not be replaced without --overwrite. */
export const standsInTheWay = (folder: string, what: string): Gpt2Error =>
  gpt2Error`${folder} holds ${what}: replace it with --overwrite, or name another folder${onCommandLine(' with --out')}`;

/**
 * Puts a data set in a folder: removes the files of the replaced one, dataset.json first, and temporary files of killed processes;
 * then calls `putShards`; then writes tokenizer.json, unless the tokenizer is built in, and last dataset.json: the data set is complete.
 * @throws Gpt2Error if the folder cannot be written, or has a tokenizer.json that belongs to no data set
 */
export function replaceDataset(
  folder: string,
  replaced: readonly string[],
  { file }: Pick<Tokenizer, 'file'>,
  putShards: () => Dataset,
): Dataset {
  const path = join(folder, tokenizerFile);
  const isForeign = file !== undefined && !replaced.includes(tokenizerFile) && existsSync(path);
  if (isForeign && readFileSync(path, 'utf8') !== file)
    throw gpt2Error`${path} belongs to no data set and is not replaced: move it, or name another folder${onCommandLine(' with --out')}`;
  writingTo(folder, () => {
    makeFolder(folder);
    const leftovers = readdirSync(folder).filter((name) => {
      const file = /^(.*)\.\d+\.tmp$/.exec(name)?.[1];
      return file !== undefined && (file === datasetFile || file === tokenizerFile || roleOfName(file).length > 0);
    });
    for (const name of [datasetFile, ...replaced, ...leftovers]) rmSync(join(folder, name), { force: true });
  });
  const dataset = putShards();
  if (file !== undefined) writeDurably(path, [Buffer.from(file)]);
  writeDurably(join(folder, datasetFile), [Buffer.from(checkedJson(dataset))]);
  return dataset;
}

/** Runs `work`, which writes to a folder. @throws Gpt2Error if the folder cannot be written */
export const writingTo = <R>(folder: string, work: () => R): R =>
  explained(`cannot write to ${folder}`, `name another folder${onCommandLine(' with --out')}`, work);

/** Whether shards and tokenizer exist with the hashes in dataset.json. A tokenizer that may lose characters needs a recorded loss. */
export function isWhole(folder: string, dataset: Dataset): boolean {
  const tokenizer = attempt(() => readDatasetTokenizer(folder, dataset));
  if (tokenizer instanceof Gpt2Error || (tokenizer.encodeAll && tokenizer.lost === undefined)) return false;
  return dataset.shards.every(
    ({ file, sha256 }) => existsSync(join(folder, file)) && hashFile(join(folder, file)) === sha256,
  );
}
