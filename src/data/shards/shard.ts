// Reads, checks and writes token shards in llm.c's format: 256 int32 (magic 20240520, version 1, token count), then the tokens
// as uint16. datasets/find-shards.ts lists the shards of a folder.
import { createHash } from 'node:crypto';
import { closeSync, fstatSync, fsyncSync, openSync, renameSync, rmSync, type Stats, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { explained, Gpt2Error, gpt2Error, orElse } from '../../base/errors.ts';
import { closing, hashOpenFile, openRegularFile, readFully, syncToDisk } from '../../base/files/regular-file.ts';

const magic = 20240520;
const version = 1;
const headerBytes = 1024;
const tokenBytes = 2;

export type Shard = ReturnType<typeof openShard>;

/** A shard's content has changed since it was opened. Earlier reads were correct. */
export class ChangedShardError extends Gpt2Error {
  override readonly name = 'ChangedShardError';
}

/** Opens a shard. @throws Gpt2Error with the expected and the actual value, if the file is missing or is not a shard */
export function openShard(path: string) {
  const file = explained(`the token shard ${path} cannot be opened`, 'name a .bin file that prepro wrote', () =>
    openRegularFile(path),
  );
  try {
    let seen = fstatSync(file);
    const header = readHeader(file, path, seen);
    const tokens = header[2]!;
    let buffer = new Uint16Array(0);
    let sha256: string | undefined;
    const read = (start: number, count: number): Uint16Array => {
      if (buffer.length < count) buffer = new Uint16Array(count);
      const view = buffer.subarray(0, count);
      for (;;) {
        const bytes = new Uint8Array(view.buffer, 0, count * tokenBytes);
        reading(path, () => readFully(file, bytes, headerBytes + start * tokenBytes));
        // fstat comes after the read, to detect changes of the file before and during the read. It takes 1 µs.
        const now = fstatSync(file);
        const isSameSize = now.size === seen.size;
        if (isSameSize && now.mtimeMs === seen.mtimeMs) return view;
        const isHashed = isSameSize && sha256 !== undefined;
        if (!isHashed || reading(path, () => hashOpenFile(file, now.size)) !== sha256) throw changed(path);
        seen = now;
      }
    };
    return {
      path,
      tokens,
      /** sha256 of the whole file, in hex; undefined before `checkTokens`. */
      get sha256(): string | undefined {
        return sha256;
      },
      /**
       * Reads `count` tokens from `start` on into memory that the next read reuses. Reads still succeed after another file has taken
       * this file's name and, once `checkTokens` has hashed this file, after it was touched or overwritten with the same bytes.
       * @throws ChangedShardError if the file's content has changed since it was opened
       */
      read,
      /**
       * Checks the tokens of the whole shard. `checkHash` may refuse the sha256, before a token outside the vocabulary is reported.
       * @param see called with all tokens of the shard, about a million at a time
       * @throws Gpt2Error naming the first token outside the vocabulary
       */
      checkTokens(
        vocabularySize: number,
        checkHash: (sha256: string) => void = () => {},
        see: (tokens: Uint16Array) => void = () => {},
      ): void {
        const chunk = 1 << 20;
        let outside: string | undefined;
        const hash = createHash('sha256').update(header);
        for (let start = 0; start < tokens; start += chunk) {
          const values = read(start, Math.min(chunk, tokens - start));
          hash.update(values);
          see(values);
          const at = outside === undefined ? firstOutside(values, vocabularySize) : -1;
          if (at >= 0) outside = `the token ${values[at]} at position ${start + at}`;
        }
        sha256 = hash.digest('hex');
        buffer = new Uint16Array(0);
        checkHash(sha256);
        if (outside === undefined) return;
        throw gpt2Error`${path} holds ${outside}, outside the vocabulary of ${vocabularySize}; it was made for another model: make it again with prepro`;
      },
      [Symbol.dispose]: () => closeSync(file),
    };
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/**
 * Index of the first token outside the vocabulary, or -1. `findIndex` would take six times as long as the loop.
 * @param takesNone whether a token may be -1, which marks a target that does not count
 */
export function firstOutside(tokens: Uint16Array | Int32Array, vocabularySize: number, takesNone = false): number {
  const shift = takesNone ? 1 : 0;
  for (let index = 0; index < tokens.length; index++) {
    // >>> 0 converts to unsigned: a negative token then exceeds every vocabulary.
    if ((tokens[index]! + shift) >>> 0 >= vocabularySize + shift) return index;
  }
  return -1;
}

/** Reads and checks the header, 256 int32: magic, version, number of tokens, zeros. @throws Gpt2Error if the file is no shard */
function readHeader(file: number, path: string, stats: Stats): Int32Array {
  const refuse = (what: string): never => {
    throw gpt2Error`${path} is not a token shard: ${what}; make it again with prepro`;
  };
  if (stats.size < headerBytes) return refuse(`it has ${stats.size} bytes, less than the header's ${headerBytes}`);
  const header = new Int32Array(headerBytes / 4);
  reading(path, () => readFully(file, new Uint8Array(header.buffer), 0));
  const [foundMagic, foundVersion, tokens] = header as unknown as [number, number, number];
  if (foundMagic !== magic) return refuse(`it begins with ${foundMagic}, not ${magic}`);
  if (foundVersion !== version) return refuse(`its version is ${foundVersion}, not ${version}`);
  const field = header.findIndex((value, index) => index > 2 && value !== 0);
  if (field >= 0) return refuse(`int ${field} of its header is ${header[field]}, not 0`);
  const expected = headerBytes + tokens * tokenBytes;
  if (stats.size !== expected) {
    return refuse(`its header says ${tokens} tokens, ${expected} bytes in all, but it has ${stats.size}`);
  }
  return header;
}

/** Runs `read`, which reads from the shard at `path`. @throws ChangedShardError if the file ends early */
function reading<R>(path: string, read: () => R): R {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== undefined) throw error;
    throw changed(path);
  }
}

const changed = (path: string): ChangedShardError =>
  new ChangedShardError(
    `${path} changed while it was being read; restore it and resume the run, or start a new run with the new file`,
  );

export function shardHeader(tokens: number): Uint8Array {
  const header = new Int32Array(headerBytes / 4);
  header.set([magic, version, tokens]);
  return new Uint8Array(header.buffer);
}

/** Writes a shard under a temporary name, then renames it. Returns the number of tokens and the sha256, for dataset.json. */
export function writeShard(path: string, tokens: Uint16Array): { tokens: number; sha256: string } {
  const parts = [shardHeader(tokens.length), new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength)];
  const hash = createHash('sha256');
  writeDurably(path, parts);
  for (const part of parts) hash.update(part);
  return { tokens: tokens.length, sha256: hash.digest('hex') };
}

/** The temporary name of `path` while this process writes it. */
export const temporaryPath = (path: string): string => `${path}.${process.pid}.tmp`;

/** Writes a file that is complete or absent after a crash. @throws Gpt2Error */
export function writeDurably(path: string, parts: Iterable<Uint8Array>, temporary = temporaryPath(path)): void {
  try {
    // If the temporary name is a link, which could lead to any file, only the link is removed.
    rmSync(temporary, { force: true });
    closing(openSync(temporary, 'wx'), (file) => {
      for (const part of parts) for (let done = 0; done < part.length; ) done += writeSync(file, part, done);
      fsyncSync(file);
    });
    renameSync(temporary, path);
    syncToDisk(dirname(path));
  } catch (cause) {
    // If the removal fails too, the first error is reported.
    orElse(undefined, () => rmSync(temporary, { force: true }));
    throw new Gpt2Error(`cannot write ${path}: ${(cause as Error).message}`, { cause });
  }
}
