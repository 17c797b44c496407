// Reads and writes parts: the tokens of one chunk, in a file that exists until the shards are written. A part begins with a hash
// of its input, by which work done before a kill is found, and a hash of its content.
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { explained, Gpt2Error, orElse, words } from '../../../base/errors.ts';
import type { Loss } from '../../../tokenizer/loss.ts';
import { chooseCut } from '../../../tokenizer/safe-cuts.ts';
import type { Chunk, Encoding, FileRole } from './format.ts';

const version = 3;
const hashBytes = 32;
/** Bytes of a row of a part's table. The first row has the numbers of blocks and lost characters, which follow, one a row. */
const blockBytes = 16;

const roles: readonly FileRole[] = ['split', 'train', 'val'];

const leastBlock = 16 << 10;
/** A block of this many bytes or more is divided. */
export const largestBlock = 32 << 10;

/**
 * The end of the block that begins at `start`, in a document that ends at `end`: a place where a cut changes no id.
 * @param atLines whether the tokenizer's pattern may differ from GPT-2's
 */
export const blockEnd = (bytes: Uint8Array, start: number, end: number, atLines: boolean): number =>
  end - start < largestBlock ? end : chooseCut(bytes, start + leastBlock, start + largestBlock, atLines);

/** Consecutive tokens of one document. A book has many blocks, so some are for training and some for validation. */
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

/** Whether an intact part with this key exists. */
export const hasPart = (path: string, key: Uint8Array): boolean =>
  orElse(false, () => {
    const bytes = readFileSync(path);
    return isWhole(bytes) && bytes.subarray(0, hashBytes).equals(key);
  });

/** Writes a part under a temporary name, then renames it. @throws Gpt2Error */
export function writePart(path: string, key: Uint8Array, { blocks, tokens, loss }: Part): void {
  const table = Buffer.alloc((1 + blocks.length + loss.lost.size) * blockBytes);
  table.writeUInt32LE(blocks.length);
  table.writeUInt32LE(loss.lost.size, 4);
  table.writeDoubleLE(loss.characters, 8);
  blocks.forEach(({ tokens, opens, role, fraction }, index) => {
    const at = (index + 1) * blockBytes;
    table.writeUInt32LE(tokens, at);
    table.writeUInt32LE(Number(opens) + 2 * roles.indexOf(role), at + 4);
    table.writeDoubleLE(fraction, at + 8);
  });
  [...loss.lost].forEach(([codePoint, times], index) => {
    const at = (1 + blocks.length + index) * blockBytes;
    table.writeUInt32LE(codePoint, at);
    table.writeDoubleLE(times, at + 8);
  });
  const content = Buffer.concat([table, new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength)]);
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
  const content = bytes.subarray(2 * hashBytes);
  const blocks = Array.from({ length: content.readUInt32LE() }, (_, index): Block => {
    const at = (index + 1) * blockBytes;
    const flags = content.readUInt32LE(at + 4);
    return {
      tokens: content.readUInt32LE(at),
      opens: (flags & 1) === 1,
      role: roles[flags >> 1]!,
      fraction: content.readDoubleLE(at + 8),
    };
  });
  const lost = Array.from({ length: content.readUInt32LE(4) }, (_, index): [number, number] => {
    const at = (1 + blocks.length + index) * blockBytes;
    return [content.readUInt32LE(at), content.readDoubleLE(at + 8)];
  });
  const rest = content.subarray((1 + blocks.length + lost.length) * blockBytes);
  return {
    blocks,
    tokens: new Uint16Array(rest.buffer, rest.byteOffset, rest.length / 2),
    loss: { characters: content.readDoubleLE(8), lost: new Map(lost) },
  };
}

const isWhole = (bytes: Buffer): boolean =>
  hashOf(bytes.subarray(2 * hashBytes)).equals(bytes.subarray(hashBytes, 2 * hashBytes));

const hashOf = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();
