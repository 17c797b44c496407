// Reads and writes parts: the tokens of one chunk, in a file that exists until the shards are written. A part holds a hash of its
// input, which identifies work done before a kill, and one of its content.
import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync, renameSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../../errors.ts';
import type { Chunk, Encoding, FileRole } from './format.ts';

const magic = 0x67327470;
const version = 1;
const headerBytes = 80;
const blockBytes = 16;

const roles: readonly FileRole[] = ['split', 'train', 'val'];

/** Consecutive tokens of one document. */
export interface Block {
  readonly tokens: number;
  /** Whether a document begins with it. */
  readonly opens: boolean;
  readonly role: FileRole;
  /** In [0, 1), from the hash of its text: equal texts have equal fractions. */
  readonly fraction: number;
}

export interface Part {
  readonly blocks: readonly Block[];
  readonly tokens: Uint16Array;
}

/** The key of a chunk's part: a hash of everything that its tokens depend on. */
export function keyOf({ bytes, pieces }: Chunk, encoding: Encoding): Buffer {
  const shape = pieces.map(({ start, end, opens, closes, role }) => [start, end, opens, closes, role]);
  return createHash('sha256')
    .update(JSON.stringify([version, encoding, shape]))
    .update(bytes)
    .digest();
}

export const partPath = (folder: string, index: number): string =>
  join(folder, `part-${String(index).padStart(6, '0')}`);

/** Whether the part of a key exists, by its header and size; `readPart` checks the rest. */
export function hasPart(path: string, key: Uint8Array): boolean {
  const header = Buffer.alloc(headerBytes);
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return false;
  }
  try {
    if (readSync(file, header, 0, headerBytes, 0) < headerBytes || !isHeader(header)) return false;
    return header.subarray(48, 80).equals(key) && statSync(path).size === sizeOf(header);
  } finally {
    closeSync(file);
  }
}

/** Writes a part under a temporary name, then renames it. @throws Gpt2Error */
export function writePart(path: string, key: Uint8Array, { blocks, tokens }: Part): void {
  const table = Buffer.alloc(blocks.length * blockBytes);
  blocks.forEach(({ tokens, opens, role, fraction }, index) => {
    table.writeUInt32LE(tokens, index * blockBytes);
    table.writeUInt32LE(Number(opens) + 2 * roles.indexOf(role), index * blockBytes + 4);
    table.writeDoubleLE(fraction, index * blockBytes + 8);
  });
  const content = new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength);
  const header = Buffer.alloc(headerBytes);
  for (const [index, value] of [magic, version, blocks.length, tokens.length].entries()) {
    header.writeUInt32LE(value, index * 4);
  }
  createHash('sha256').update(table).update(content).digest().copy(header, 16);
  header.set(key, 48);
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    const file = openSync(temporary, 'w');
    try {
      for (const bytes of [header, table, content]) {
        for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
      }
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (cause) {
    throw new Gpt2Error(`cannot write ${path}: ${(cause as Error).message}; name another folder with --out`, { cause });
  }
}

/** @throws Gpt2Error if it cannot be read or has changed */
export function readPart(path: string): Part {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (cause) {
    throw new Gpt2Error(`cannot read ${path}: ${(cause as Error).message}; run prepro again`, { cause });
  }
  const isWhole =
    bytes.length >= headerBytes &&
    isHeader(bytes) &&
    bytes.length === sizeOf(bytes) &&
    createHash('sha256').update(bytes.subarray(headerBytes)).digest().equals(bytes.subarray(16, 48));
  if (!isWhole) throw new Gpt2Error(`${path} is damaged: remove it and run prepro again`);
  const blocks: Block[] = [];
  const tokensStart = headerBytes + bytes.readUInt32LE(8) * blockBytes;
  for (let at = headerBytes; at < tokensStart; at += blockBytes) {
    const flags = bytes.readUInt32LE(at + 4);
    blocks.push({
      tokens: bytes.readUInt32LE(at),
      opens: (flags & 1) === 1,
      role: roles[flags >> 1]!,
      fraction: bytes.readDoubleLE(at + 8),
    });
  }
  return { blocks, tokens: new Uint16Array(bytes.buffer, bytes.byteOffset + tokensStart, bytes.readUInt32LE(12)) };
}

const isHeader = (bytes: Buffer): boolean => bytes.readUInt32LE(0) === magic && bytes.readUInt32LE(4) === version;
const sizeOf = (header: Buffer): number =>
  headerBytes + header.readUInt32LE(8) * blockBytes + header.readUInt32LE(12) * 2;
