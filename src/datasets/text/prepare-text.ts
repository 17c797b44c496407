// Files of text to a folder of token shards, in bounded memory, on several threads. What threads make of chunks is kept
// under <folder>/.prepro until the shards are whole, so that a killed preparation goes on where it was; the shards are the
// same then, and the same for any number of threads.
import { createHash } from 'node:crypto';
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { Gpt2Error, UsageError } from '../../errors.ts';
import { checkedJson } from '../../files/checked-json.ts';
import { type Dataset, datasetFile, type Role, roleOfName } from '../../shards/find.ts';
import { writeDurably } from '../../shards/shard.ts';
import { tokenizerNamed, tokenizerNames } from '../../tokenizer/tokenizer.ts';
import { isWhole, type Standing, standingIn, standsInTheWay } from '../standing.ts';
import { assemble, type Division } from './assemble.ts';
import { chunksOf } from './chunks.ts';
import { type Encoding, type Format, type Input, longestSeparator } from './format.ts';
import { hasPart, keyOf, partPath } from './parts.ts';
import { ThreadPool } from './thread-pool.ts';
import { WorkFolder } from './work-folder.ts';

/** Each takes 70 MB: with six it is under 640 MB in all, whatever the text. More are for who asks for them. */
const mostDefaultThreads = 6;
/** What an end of text may be in the shards' count, which is an int32. */
const mostShardTokens = 2 ** 31 - 1;

export interface TextOptions {
  /** Folder to write. */
  readonly out: string;
  readonly format: Format;
  readonly division: Division;
  /** Default gpt2. */
  readonly tokenizer?: string;
  /** Threads that encode. Default: one for each core, at most 6. */
  readonly workers?: number;
  /** Replaces a data set of another text or other options that stands in `out`. */
  readonly overwrite?: boolean;
  /** Told of bytes of the files that are encoded, and of all. */
  readonly onProgress?: (done: number, total: number) => void;
  readonly notice?: (text: string) => void;
}

export interface PreparedText {
  readonly folder: string;
  /** Whether it was there before and right. */
  readonly present: boolean;
  readonly dataset: Dataset;
}

/**
 * Makes the shards of a text, unless they are there and right.
 * @throws UsageError for an option that cannot be; Gpt2Error for a file that cannot be read or is not what it must be, and for
 * a folder that holds another data set, which `overwrite` replaces
 * @example
 * const division = { prefix: 'books', shardTokens: 100_000_000, validation: 0.1 } as const;
 * await prepareText(findInputs(['books']), { out: 'data/books', format: { kind: 'text' }, division });
 */
export async function prepareText(inputs: readonly Input[], options: TextOptions): Promise<PreparedText> {
  const { out, format, division, tokenizer: name = 'gpt2', workers, overwrite, onProgress } = options;
  const { notice = () => {} } = options;
  const tokenizer = tokenizerNamed(name);
  if (!tokenizer)
    throw new UsageError(`--tokenizer takes one of ${tokenizerNames.join(', ')}, not ${JSON.stringify(name)}`);
  check(format, division);
  const encoding: Encoding = { tokenizer: name, format };
  const made = { ...encoding, ...division };

  const total = inputs.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const onEncoded = (bytes: number) => {
    done += bytes;
    onProgress?.(done, total);
  };

  const standing = standingIn(out, division.prefix);
  const difference = await differenceOf(standing, inputs, encoding, made);
  const { dataset: before } = standing;
  if (before && !difference && (await isWhole(out, before))) return { folder: out, present: true, dataset: before };
  if (difference && standing.isFinished && !overwrite) throw standsInTheWay(out, difference);

  const work = new WorkFolder(out);
  if (work.existed) notice(`going on with what ${work.path} holds`);
  try {
    const { parts, input } = await encodeAll(inputs, { encoding, folder: work.path, workers, onEncoded });
    const { shards, documents } = assemble(parts, work.path, division, tokenizer.endOfText);
    const dataset: Dataset = {
      source: sourceOf(inputs),
      tokenizer: name,
      vocabularySize: tokenizer.vocabularySize,
      documents,
      made: { ...made, input },
      shards,
    };
    putInPlace(out, work, dataset, standing);
    if (inputs.every(({ role }) => role === 'split')) tellShare(shards, division, notice);
    return { folder: out, present: false, dataset };
  } catch (error) {
    work.abandon();
    throw error;
  }
}

/** Encodes all files. Gives the parts' paths, in order, and a hash of all that their tokens depend on. */
async function encodeAll(
  inputs: readonly Input[],
  {
    encoding,
    folder,
    workers,
    onEncoded,
  }: { encoding: Encoding; folder: string; workers: number | undefined; onEncoded: (bytes: number) => void },
): Promise<{ parts: string[]; input: string }> {
  const pool = new ThreadPool({ encoding, folder }, workers ?? Math.min(mostDefaultThreads, availableParallelism()));
  const parts: string[] = [];
  const fingerprint = createHash('sha256');
  // Of the files themselves, which may be packed: what was read for a chunk counts when the chunk is encoded.
  let read = 0;
  const onRead = (bytes: number) => {
    read += bytes;
    onEncoded(0);
  };
  try {
    for await (const chunk of chunksOf(inputs, encoding.format, { onRead, spare: pool.spare })) {
      const bytes = read;
      read = 0;
      const key = keyOf(chunk, encoding);
      const path = partPath(folder, chunk.index);
      fingerprint.update(key);
      parts.push(path);
      if (hasPart(path, key)) {
        pool.spare.push(chunk.bytes.buffer);
        onEncoded(bytes);
      } else await pool.run({ chunk, key }, () => onEncoded(bytes));
    }
    await pool.finish();
    onEncoded(read);
  } finally {
    await pool.close();
  }
  return { parts, input: fingerprint.digest('hex') };
}

function check(format: Format, { shardTokens, validation }: Division): void {
  if (!Number.isSafeInteger(shardTokens) || shardTokens < 1 || shardTokens > mostShardTokens) {
    throw new UsageError(`--shard-tokens takes a whole number from 1 to ${mostShardTokens}, not ${shardTokens}`);
  }
  if (validation !== 'first shard' && !(validation > 0 && validation < 1)) {
    throw new UsageError(`--val-fraction takes a number over 0 and under 1, not ${validation}`);
  }
  if (format.kind === 'text' && format.separator !== undefined) {
    const { length } = Buffer.from(format.separator);
    if (length === 0) throw new UsageError('--separator takes some text: without the flag, a file is a document');
    if (length > longestSeparator)
      throw new UsageError(`--separator takes up to ${longestSeparator} bytes, not ${length}`);
  }
}

/** What the shards of a folder are called by: its name, in letters, digits, _ and -, unless that would say a role. */
export function shardPrefix(folder: string): string {
  const name = basename(resolve(folder)).replaceAll(/[^\p{L}\p{M}\p{N}_-]+/gu, '_');
  return roleOfName(`${name}.bin`).length > 0 ? 'text' : name;
}

/** What stands there instead of the data set asked for; undefined if it is that one, whole or not. */
async function differenceOf(
  { dataset }: Standing,
  inputs: readonly Input[],
  encoding: Encoding,
  made: Record<string, unknown>,
): Promise<string | undefined> {
  if (!dataset?.made) return 'another data set';
  const { input, ...settings } = dataset.made;
  if (canonical(settings) !== canonical(made)) return 'a data set made with other options';
  const fingerprint = createHash('sha256');
  const spare: ArrayBuffer[] = [];
  for await (const chunk of chunksOf(inputs, encoding.format, { spare })) {
    fingerprint.update(keyOf(chunk, encoding));
    spare.push(chunk.bytes.buffer);
  }
  return fingerprint.digest('hex') === input ? undefined : 'a data set made of another text';
}

/** JSON with what is undefined left out, and names in order. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );

/** Says if the share that became validation is far from the one asked for. */
function tellShare(shards: Dataset['shards'], { validation }: Division, notice: (text: string) => void): void {
  if (validation === 'first shard') return;
  const sum = (role?: Role) =>
    shards.reduce((sum, shard) => sum + (role === undefined || shard.role === role ? shard.tokens : 0), 0);
  const share = sum('val') / sum();
  if (share <= 2 * validation && share >= validation / 2) return;
  const percent = (value: number) => `${Number((100 * value).toPrecision(2))}%`;
  notice(
    `validation is ${percent(share)} of the tokens, not ${percent(validation)}: there is too little text, or too much of it alike, to come closer; give more of it, or another --val-fraction`,
  );
}

/** What a kill leaves of dataset.json while it is written. */
const leftover = /^dataset\.json\.\d+\.tmp$/;

/** From here to dataset.json, the last to be written, train refuses the folder; a kill in between costs the assembling. */
function putInPlace(folder: string, work: WorkFolder, dataset: Dataset, { shards }: Standing): void {
  try {
    rmSync(join(folder, datasetFile), { force: true });
    const leftovers = readdirSync(folder).filter((name) => leftover.test(name));
    for (const name of [...shards, ...leftovers]) rmSync(join(folder, name), { force: true });
    for (const { file } of dataset.shards) renameSync(join(work.path, file), join(folder, file));
  } catch (cause) {
    throw new Gpt2Error(`cannot write to ${folder}: ${(cause as Error).message}; name another folder with --out`, {
      cause,
    });
  }
  writeDurably(join(folder, datasetFile), [Buffer.from(checkedJson(dataset))]);
  work.remove();
}

function sourceOf(inputs: readonly Input[]): string {
  const first = inputs[0]!.path;
  return inputs.length === 1 ? first : `${first} and ${inputs.length - 1} more files`;
}
