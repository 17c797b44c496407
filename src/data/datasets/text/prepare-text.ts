// Makes a folder of token shards from text files, in bounded memory, on several threads. Encoded chunks stay in <folder>/.prepro
// until the shards are complete, so a killed preparation can resume. Kills and the number of threads do not change the shards.
import { createHash } from 'node:crypto';
import { renameSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { checkGiven, checkValue, real, whole } from '../../../base/checks/given.ts';
import { UsageError, usageError, words } from '../../../base/errors.ts';
import { characterTokenizerName } from '../../../tokenizer/character-tokenizer.ts';
import { percent } from '../../../tokenizer/loss.ts';
import { gpt2 } from '../../../tokenizer/tokenizer.ts';
import { chooseTokenizer, type LossOptions, tokenizerOfCharacters } from '../../choose-tokenizer.ts';
import { type Dataset, roleOfName, tokenizerRecord } from '../../shards/dataset-file.ts';
import {
  isWhole,
  type Prepared,
  replaceDataset,
  type Standing,
  standingIn,
  standsInTheWay,
  writingTo,
} from '../../standing.ts';
import { assemble, type Division } from './assemble.ts';
import { chunksOf } from './chunks.ts';
import { type Encoding, type Format, type Input, longestSeparator } from './format.ts';
import { hasPart, keyOf, partPath } from './parts.ts';
import { type Task, threadPool } from './thread-pool.ts';
import { workFolder } from './work-folder.ts';

/** The most threads by default: each takes 70 MB. With six, the whole process stays under 640 MB for any text. */
const mostDefaultThreads = 6;
/** The token count in a shard's header is an int32. */
const mostShardTokens = 2 ** 31 - 1;

export interface TextOptions extends LossOptions {
  readonly out: string;
  readonly format: Format;
  readonly division: Division;
  /** gpt2 (the default), bytes, char: the characters of the text, or the path of a tokenizer.json or of a folder that has one. */
  readonly tokenizer?: string | undefined;
  /** Threads that encode. Default: one for each core, at most 6. */
  readonly workers?: number | undefined;
  /** Called with the encoded and the total bytes of the files. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/**
 * Makes the shards of a text, unless they exist and are intact.
 * @throws UsageError for an invalid option; Gpt2Error for a file that cannot be read or has another format, and for a folder
 * that holds another data set unless `overwrite` is set
 * @example
 * const division = { prefix: 'books', shardTokens: 100_000_000, validation: 0.1 } as const;
 * await prepareText(findInputs(['books']), { out: 'data/books', format: { kind: 'text' }, division });
 */
export async function prepareText(inputs: readonly Input[], options: TextOptions): Promise<Prepared> {
  const switches = { overwrite: 'switch', lossy: 'switch' } as const;
  const hooks = { onProgress: 'function', notice: 'function' } as const;
  const optional = { tokenizer: 'text', workers: whole(1, 1024), ...switches, ...hooks } as const;
  checkGiven(options, { out: 'text', format: 'object', division: 'object' }, optional);
  const found = { member: 'path', what: 'what findInputs() returns' };
  checkValue('inputs', { ...found, member: 'map' }, inputs);
  for (const input of inputs) checkValue('inputs', found, input);
  const { out, format, division, tokenizer: name = gpt2.name, overwrite, lossy, onProgress } = options;
  const { notice = () => {}, workers = Math.min(mostDefaultThreads, availableParallelism()) } = options;
  const chosen = chooseTokenizer(name);
  if (chosen && chosen.endOfText === undefined)
    notice(`${name} has no end of text: documents follow one another without`);
  check(format, division);
  const total = inputs.reduce((sum, { bytes }) => sum + bytes, 0) * (chosen ? 1 : 2);
  let done = 0;
  const onEncoded = (bytes: number) => {
    done += bytes;
    onProgress?.(done, total);
  };

  const ofCharacters = { encoding: { tokenizer: characterTokenizerName, format }, folder: undefined };
  const tokenizer =
    chosen ?? tokenizerOfCharacters((await encodeAll(inputs, ofCharacters, workers, onEncoded)).characters);
  const { vocabularySize: _, ...record } = tokenizerRecord(tokenizer);
  const encoding: Encoding = { ...record, format };
  const made = { ...encoding, ...division };
  const standing = standingIn(out, division.prefix);
  const difference = await differenceOf(standing, inputs, encoding, made);
  const { dataset: before } = standing;
  if (before && !difference && isWhole(out, before)) return { folder: out, present: true, dataset: before };
  if (difference && standing.isFinished && !overwrite) throw standsInTheWay(out, difference);

  const work = workFolder(out);
  if (work.existed) notice(`resuming from ${work.path}`);
  try {
    const task = { encoding, tokenizerFile: tokenizer.file, tokenizerPath: name, folder: work.path };
    const { parts, input, marks } = await encodeAll(inputs, task, workers, onEncoded);
    const { endOfText } = tokenizer;
    const { shards, documents, loss } = assemble(parts, work.path, { ...division, endOfText, lossy, notice });
    const facts = { source: sourceOf(inputs), ...tokenizerRecord(tokenizer, loss), documents };
    const dataset: Dataset = { ...facts, made: { ...made, input }, shards };
    // Until dataset.json is written, train rejects the folder. After a kill here, prepro makes the shards again from the parts.
    replaceDataset(out, standing.replaced, tokenizer, () => {
      for (const { file } of shards) writingTo(out, () => renameSync(join(work.path, file), join(out, file)));
      return dataset;
    });
    work.remove();
    const separator = words`divide documents there with --separator '${endMark}'`;
    const advice = format.kind === 'text' ? separator : 'each line or row stays one document';
    if (marks > 0) notice(`${endMark} occurs ${marks === 1 ? 'once' : `${marks} times`} in the text: ${advice}`);
    if (inputs.every(({ role }) => role === 'split')) tellShare(shards, division, notice);
    return { folder: out, present: false, dataset };
  } catch (error) {
    work.abandon();
    throw error;
  }
}

/** The text that many files contain where a document ends. */
const endMark = '<|endoftext|>';

/**
 * Encodes all files or, if the task has no folder, only collects their characters. Returns the parts' paths in order, a hash of
 * everything on which the tokens depend, and how often the text contains <|endoftext|>, 0 if the separator contains this mark.
 */
async function encodeAll(
  inputs: readonly Input[],
  task: Task,
  workers: number,
  onEncoded: (bytes: number) => void,
): Promise<{ parts: string[]; input: string; marks: number; characters: ReadonlySet<number> }> {
  const { encoding, folder } = task;
  const pool = threadPool(task, workers);
  const parts: string[] = [];
  const fingerprint = createHash('sha256');
  // Bytes read from the (perhaps compressed) files since the last chunk. They count as progress when their chunk is encoded.
  let read = 0;
  let marks = 0;
  const isMark = encoding.format.kind === 'text' && encoding.format.separator?.includes(endMark);
  const onRead = (bytes: number) => {
    read += bytes;
    onEncoded(0);
  };
  try {
    for await (const chunk of chunksOf(inputs, encoding, { onRead, spare: pool.spare })) {
      const bytes = read;
      read = 0;
      const path = folder && partPath(folder, chunk.index);
      const key = path ? keyOf(chunk, encoding) : Buffer.alloc(0);
      if (path) {
        parts.push(path);
        fingerprint.update(key);
        const text = Buffer.from(chunk.bytes.buffer, 0, chunk.bytes.length);
        if (!isMark && text.includes(endMark)) marks += text.toString('latin1').split(endMark).length - 1;
      }
      if (path && hasPart(path, key)) {
        pool.spare.push(chunk.bytes.buffer);
        onEncoded(bytes);
      } else await pool.run({ chunk, key }, () => onEncoded(bytes));
    }
    await pool.finish();
    onEncoded(read);
  } finally {
    await pool.close();
  }
  return { parts, input: fingerprint.digest('hex'), marks, characters: pool.characters };
}

function check(format: Format, division: Division): void {
  if (format.kind === 'jsonl') checkGiven(format, { kind: ['jsonl'], field: 'text' }, {});
  else checkGiven(format, { kind: ['text', 'jsonl'] }, { separator: 'text or ""', strip: 'switch' });
  const share = { ...real(0, 1), isOpen: true, or: 'first shard' } as const;
  checkGiven(division, { prefix: 'text or ""', shardTokens: whole(1, mostShardTokens), validation: share }, {});
  if (format.kind === 'text' && format.separator !== undefined) {
    const { length } = Buffer.from(format.separator);
    if (length === 0) throw usageError`--separator takes a text, not "": leave it out if a file is a document`;
    if (length > longestSeparator) throw UsageError.takes('--separator', `up to ${longestSeparator} bytes`, length);
  }
}

/** The prefix of a folder's shards: the folder's name in letters, digits, _ and -; "text" if that name contains a role. */
export function shardPrefix(folder: string): string {
  const name = basename(resolve(folder)).replaceAll(/[^\p{L}\p{M}\p{N}_-]+/gu, '_');
  return roleOfName(`${name}.bin`).length > 0 ? 'text' : name;
}

/** How the folder's data set, complete or not, differs from the requested one, in words for an error; undefined if both are equal. */
async function differenceOf(
  { dataset }: Standing,
  inputs: readonly Input[],
  encoding: Encoding,
  made: Record<string, unknown>,
): Promise<string | undefined> {
  if (!dataset?.made) return 'another data set';
  const { input, ...settings } = dataset.made;
  if (settings.tokenizer !== made.tokenizer) return `a data set of the tokenizer ${settings.tokenizer}`;
  // dataset.json stores the settings as JSON, which drops undefined values, so `made` is compared after a pass through JSON.
  if (!isDeepStrictEqual(settings, JSON.parse(JSON.stringify(made)))) return 'a data set made with other options';
  const fingerprint = createHash('sha256');
  const spare: ArrayBuffer[] = [];
  for await (const chunk of chunksOf(inputs, encoding, { spare })) {
    fingerprint.update(keyOf(chunk, encoding));
    spare.push(chunk.bytes.buffer);
  }
  return fingerprint.digest('hex') === input ? undefined : 'a data set made of another text';
}

/** Warns if the share of validation is far from the requested one. */
function tellShare(shards: Dataset['shards'], { validation }: Division, notice: (text: string) => void): void {
  if (validation === 'first shard') return;
  const sumOf = (some: Dataset['shards']) => some.reduce((sum, { tokens }) => sum + tokens, 0);
  const share = sumOf(shards.filter(({ role }) => role === 'val')) / sumOf(shards);
  if (share <= 1.5 * validation && share >= validation / 1.5) return;
  notice(
    words`validation is ${percent(share)} of the tokens, not ${percent(validation)}: the text is too short or repeats itself too much to come closer; give more text, or another --val-fraction`,
  );
}

function sourceOf(inputs: readonly Input[]): string {
  const first = inputs[0]!.path;
  return inputs.length === 1 ? first : `${first} and ${inputs.length - 1} more files`;
}
