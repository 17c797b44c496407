// Reads and writes part files. A part holds the tokens of one chunk until the shards are written. Its file begins with a hash of
// the input, by which a preparation that resumes recognizes the part, and with a hash of the content.
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { explained, Gpt2Error, orElse, words } from '../../../base/errors.ts';
import type { Loss } from '../../../tokenizer/loss.ts';
import { chooseCut } from '../../../tokenizer/safe-cuts.ts';
import type { Chunk, Encoding, FileRole } from './format.ts';

// Version of the encoding. It is in every part's key (`keyOf`), and so in the hash over all keys that dataset.json records.
const version = 3;
// Version of the part files. It names V8's version, because an earlier V8 cannot read values that a later one serialized.
const format = `5 ${process.versions.v8}`;
const hashBytes = 32;

const leastBlock = 16 << 10;
/** A document, or the rest of a document after a block, is cut if it has at least this many bytes. */
export const largestBlock = 32 << 10;

/**
 * The end of the block that begins at `start`, in a document that ends at `end`: if possible, a cut there changes no token id.
 * @param atLines whether to prefer starts of lines, because the tokenizer's pattern may differ from GPT-2's
 */
export const blockEnd = (bytes: Uint8Array, start: number, end: number, atLines: boolean): number =>
  end - start < largestBlock ? end : chooseCut(bytes, start + leastBlock, start + largestBlock, atLines);

/** Consecutive tokens of one document, the unit with a role. A book has many blocks: some are for training, some for validation. */
export interface Block {
  readonly tokens: number;
  /** Whether the block begins a document. */
  readonly opens: boolean;
  readonly role: FileRole;
  /** A number in [0, 1) from the hash of the block's text: equal texts have equal fractions. */
  readonly fraction: number;
}

export interface Part {
  readonly blocks: readonly Block[];
  readonly tokens: Uint16Array;
  /** The characters of the chunk's text that were lost. */
  readonly loss: Loss;
  /** The number of rows and lines of JSON that were left out, because their text is only white space. */
  readonly empty: number;
}

/** The key of a chunk's part: a hash of everything on which the part's tokens depend. */
export function keyOf({ bytes, pieces }: Chunk, encoding: Encoding): Buffer {
  const shape = pieces.map(({ start, end, opens, closes, role }) => [start, end, opens, closes, role]);
  return createHash('sha256')
    .update(JSON.stringify([version, encoding, shape]))
    .update(bytes)
    .digest();
}

export const partPath = (folder: string, index: number): string =>
  join(folder, `part-${String(index).padStart(6, '0')}`);

/** Whether an intact part file with this key exists at `path`. */
export const hasPart = (path: string, key: Uint8Array): boolean =>
  orElse(false, () => {
    const bytes = readFileSync(path);
    return isWhole(bytes) && bytes.subarray(0, hashBytes).equals(key);
  });

/** Writes the tokens of one chunk of text under a temporary name, then renames the file. @throws Gpt2Error */
export function writePart(path: string, key: Uint8Array, part: Part): void {
  const content = serialize(part);
  const temporary = `${path}.${process.pid}.tmp`;
  explained(`cannot write ${path}`, words`name another folder with --out`, () => {
    writeFileSync(temporary, Buffer.concat([key, hashOf(content), content]));
    renameSync(temporary, path);
  });
}

/** Reads a part. @throws Gpt2Error if the file cannot be read or has changed */
export function readPart(path: string): Part {
  const bytes = explained(`cannot read ${path}`, 'run prepro again', () => readFileSync(path));
  if (!isWhole(bytes)) throw new Gpt2Error(`${path} is damaged: remove it and run prepro again`);
  return deserialize(bytes.subarray(2 * hashBytes));
}

const isWhole = (bytes: Buffer): boolean =>
  hashOf(bytes.subarray(2 * hashBytes)).equals(bytes.subarray(hashBytes, 2 * hashBytes));

/** Hash of a part file's content and of `format`: parts of another format thus count as damaged, and are encoded again. */
const hashOf = (content: Buffer): Buffer => createHash('sha256').update(format).update(content).digest();
