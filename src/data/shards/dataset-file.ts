// Names and reads the files of a data set's folder: shards, whose role (train or val) is in their names, and dataset.json.
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import * as z from 'zod';
import { checkArguments } from '../../base/checks/given.ts';
import { Gpt2Error, gpt2Error, quote } from '../../base/errors.ts';
import { readCheckedJson } from '../../base/files/checked-json.ts';
import { type Loss, lostShare } from '../../tokenizer/loss.ts';
import { builtInNamed, builtInTokenizers, gpt2, type Tokenizer, tokenizerOf } from '../../tokenizer/tokenizer.ts';
import { readTokenizer, tokenizerFile } from '../../tokenizer/tokenizer-file.ts';

export type Role = 'train' | 'val';

/** The word in a shard's file name that is its role, between non-letters: tiny_shakespeare_train.bin, fineweb_val_000001.bin. */
const roleWord: Record<Role, RegExp> = { train: /(?<![a-z])train(?![a-z])/i, val: /(?<![a-z])val(?![a-z])/i };

/** The subfolder for prepro's unfinished work. */
export const unfinishedFolder = '.prepro';

export const roleOfName = (name: string): Role[] =>
  (['train', 'val'] as const).filter((role) => name.endsWith('.bin') && roleWord[role].test(name));

const shardSchema = z.object({
  file: z.string(),
  role: z.enum(['train', 'val']),
  tokens: z.int().nonnegative(),
  sha256: z.string(),
});
/** Unknown fields are errors: if the field name sha256 is damaged, dataset.json must not pass for an older file without checksums. */
const datasetSchema = z.strictObject({
  source: z.string(),
  tokenizer: z.string(),
  vocabularySize: z.int().positive(),
  /** sha256 of tokenizer.json in the same folder; absent if the tokenizer is built in. */
  tokenizerSha256: z.string().optional(),
  /** The share of the text's characters that encoding lost, 0 to 1; only for tokenizers of the Hugging Face library. */
  lost: z.number().min(0).max(1).optional(),
  documents: z.int().positive().optional(),
  /** prepro's options and a hash of the input, by which a later prepro recognizes that this data set is already made. */
  made: z.record(z.string(), z.unknown()).optional(),
  shards: z.array(shardSchema),
});

/** The content of dataset.json. */
export type Dataset = z.infer<typeof datasetSchema>;
export const datasetFile = 'dataset.json';

/**
 * The content of a folder's dataset.json; undefined without one (the shards then have GPT-2's vocabulary).
 * @throws Gpt2Error if it is damaged
 * @example const vocabularySize = readDataset('data/tinyshakespeare')?.vocabularySize ?? 50257;
 */
export function readDataset(folder: string): Dataset | undefined {
  checkArguments({ folder });
  const path = join(folder, datasetFile);
  if (!existsSync(path)) return undefined;
  try {
    const { value, check } = readCheckedJson(path);
    check();
    return datasetSchema.parse(value);
  } catch (cause) {
    const reason = cause instanceof z.ZodError ? z.prettifyError(cause) : (cause as Error).message;
    throw new Gpt2Error(`${path} is damaged: ${reason}; make the data set again with prepro`, { cause });
  }
}

/** The fields of dataset.json about a tokenizer, and about the characters that it lost. */
export const tokenizerRecord = ({ name, vocabularySize, file, encodeAll }: Tokenizer, loss?: Loss) => ({
  tokenizer: name,
  vocabularySize,
  ...(file === undefined ? {} : { tokenizerSha256: hash('sha256', file) }),
  ...(encodeAll && loss ? { lost: lostShare(loss) } : {}),
});

/**
 * The tokenizer of a folder's shards; GPT-2's if the folder has no dataset.json.
 * @throws Gpt2Error if dataset.json names an unknown tokenizer; if dataset.json or tokenizer.json is damaged or missing
 * @example const text = decode([0, 1, 2], readDatasetTokenizer('data/tinyshakespeare-char'));
 */
export function readDatasetTokenizer(folder: string, dataset = readDataset(folder)): Tokenizer {
  if (!dataset) return gpt2;
  const { tokenizer: name, tokenizerSha256: wanted, vocabularySize, lost } = dataset;
  const refusal = (what: string) =>
    gpt2Error`${join(folder, datasetFile)} names the tokenizer ${quote(name)} of ${vocabularySize} ids, ${what}; restore the file, or run prepro again`;
  if (wanted === undefined) {
    // The recorded vocabulary, like a model's, may be larger than the tokenizer's, but not have the size of another tokenizer.
    const builtIn = builtInNamed(name);
    if (builtIn && (tokenizerOf(dataset) ?? builtIn) === builtIn) return builtIn;
    throw refusal(
      `which is none of ${builtInTokenizers.map((each) => `${each.name} of ${each.vocabularySize}`).join(', ')}`,
    );
  }
  const path = join(folder, tokenizerFile);
  const tokenizer = readTokenizer(path);
  const found = hash('sha256', tokenizer.file ?? '');
  if (found !== wanted)
    throw gpt2Error`${path} has changed: its sha256 is ${beginning(found)}, but ${datasetFile} says ${beginning(wanted)}; restore it, or run prepro again`;
  if (tokenizer.name === name && tokenizer.vocabularySize === vocabularySize) return { ...tokenizer, lost };
  throw refusal(`but ${tokenizerFile} is ${tokenizer.name} of ${tokenizer.vocabularySize}`);
}

/**
 * Compares a shard's name and sha256 with the dataset.json of its folder, if dataset.json lists shards.
 * @throws Gpt2Error if the shard is not listed, or has another sha256
 */
export function checkListed(path: string, sha256: string, dataset: Dataset | undefined): void {
  const shards = dataset?.shards ?? [];
  if (shards.length === 0) return;
  const list = join(dirname(path), datasetFile);
  const listed = shards.find(({ file }) => file === basename(path));
  if (!listed) throw gpt2Error`${path} is not listed in ${list}; move it away, or run prepro again`;
  if (listed.sha256 === sha256) return;
  throw gpt2Error`${path} is damaged: its sha256 is ${beginning(sha256)}, but ${list} says ${beginning(listed.sha256)}; restore the shard, or run prepro again`;
}

/** The first 12 digits of a hash, for messages. */
export const beginning = (hash: string): string => `${hash.slice(0, 12)}…`;
