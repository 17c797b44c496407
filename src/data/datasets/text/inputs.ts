// Finds the input files of a text and reads their bytes. Files in a folder are sorted by the bytes of their paths.
import { createReadStream, openSync, readdirSync, readSync, type Stats, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { checkArguments, checkGiven } from '../../../base/checks/given.ts';
import { Gpt2Error, gpt2Error, orElse, shortList } from '../../../base/errors.ts';
import { closing } from '../../../base/files/regular-file.ts';
import { shellWord } from '../../../base/wording.ts';
import type { FileRole, Format, Input } from './format.ts';
import { matchesGlob } from './glob.ts';
import { elementsAsLines, onlyTextField } from './json-lines.ts';
import { parquetDocuments } from './parquet-reader.ts';

const readBytes = 1 << 20;

export interface Selection {
  readonly role?: FileRole | undefined;
  /** Globs of the files to read in a folder: they match a file's name or its path in the folder. Default: all. */
  readonly include?: readonly string[] | undefined;
  /** Globs of files to leave out; the name of a folder leaves out all its files. */
  readonly exclude?: readonly string[] | undefined;
  /** Receives a notice about files in folders that are skipped, because they are not text. */
  readonly notice?: ((text: string) => void) | undefined;
}

/**
 * The input files at some paths. A folder stands for its selected text files; files and folders whose names begin with a dot are left out.
 * @throws Gpt2Error if a path is missing, a file is named twice, or a folder has no text file
 * @example const inputs = findInputs(['books'], { include: ['*.txt'] });
 */
export function findInputs(paths: readonly string[], options: Selection = {}): Input[] {
  checkArguments({ paths });
  checkGiven(options, {}, { role: ['split', 'train', 'val'], include: 'texts', exclude: 'texts', notice: 'function' });
  const { role = 'split', include = ['*'], exclude = [], notice = () => {} } = options;
  const folders = exclude
    .map((glob) => glob.replace(/^\.\//, '').replace(/\/$/, ''))
    .filter((glob) => !/[*?]/.test(glob));
  const isExcluded = (name: string) =>
    matchesGlob(name, exclude) || foldersOf(name).some((folder) => matchesGlob(folder, folders));
  const skipped: string[] = [];
  const inputs = paths.flatMap((path) => {
    const stats = statusOf(path);
    if (!stats.isDirectory()) {
      const unpack = unpackingOf(path);
      if (unpack !== undefined) throw new Gpt2Error(`${path} ${unpack}, and name the text`);
      if (stats.isFile()) refuseNul(path);
      return [{ path, bytes: stats.size, role }];
    }
    const files: string[] = [];
    let isLeftOut = false;
    for (const file of filesIn(path)) {
      const name = relative(path, file);
      if (!matchesGlob(name, include)) continue;
      if (isExcluded(name)) isLeftOut = true;
      else (isText(file) ? files : skipped).push(file);
    }
    if (files.length === 0) {
      const selected = include[0] === '*' ? '' : ` ${include.join(', ')}`;
      const left = isLeftOut ? ` except those left out by ${exclude.join(', ')}` : '';
      throw new Gpt2Error(`${path} has no text file${selected}${left}: name files, or a folder that has some`);
    }
    return files
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      .map((file) => ({ path: file, bytes: statusOf(file).size, role }));
  });
  // A file named twice could be for validation the first time and for training the second time.
  const places = new Set<string>();
  const again = inputs.find(({ path }) => places.size === places.add(resolve(path)).size);
  if (again) throw gpt2Error`${again.path} is named twice: name it once`;
  if (skipped.length > 0) {
    const files = skipped.length === 1 ? 'file that is' : 'files that are';
    const [packed] = skipped.sort().flatMap((path) => {
      const unpack = unpackingOf(path);
      return unpack === undefined ? [] : [`; ${path} ${unpack}`];
    });
    notice(`skipped ${skipped.length} ${files} not UTF-8 text: ${shortList(skipped)}${packed ?? ''}`);
  }
  return inputs;
}

/** The folders in a path: "a" and "a/b" of "a/b/c". */
const foldersOf = (name: string): string[] => {
  const parts = name.split('/').slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'));
};

const firstBytes = 8192;

/** Whether a file's first bytes are text (UTF-8 without NUL bytes), or its format may hold text, such as gzip. */
function isText(path: string): boolean {
  if (!statusOf(path).isFile()) return false;
  if (isPacked(path)) return true;
  const start = startOf(path);
  return orElse(false, () => {
    new TextDecoder('utf-8', { fatal: true }).decode(start, { stream: true });
    return !start.includes(0);
  });
}

/** Refuses a file that was named by path and has a NUL in its first 8 KiB; in a folder, it would be skipped. @throws Gpt2Error */
function refuseNul(path: string): void {
  const start = startOf(path);
  const at = start.indexOf(0);
  if (at < 0 || isPacked(path)) return;
  const hasMark = /^(\xff\xfe|\xfe\xff)/.test(start.toString('latin1', 0, 2));
  // In UTF-16 the high byte of a Latin letter is 0.
  const order = hasMark ? '' : at % 2 === 1 ? 'LE' : 'BE';
  throw gpt2Error`${path} has a NUL at byte ${at}, which no text has: leave the file out or, if it is UTF-16, convert it with \`iconv -f UTF-16${order} -t UTF-8\``;
}

const startOf = (path: string, most = firstBytes): Buffer =>
  readable(path, () => {
    const bytes = Buffer.alloc(most);
    const count = closing(openSync(path, 'r'), (file) => readSync(file, bytes));
    return bytes.subarray(0, count);
  });

const isPacked = (path: string): boolean => path.endsWith('.parquet') || isGzip(path);
const isGzip = (path: string): boolean => path.endsWith('.gz') || startOf(path, 2).equals(Buffer.of(0x1f, 0x8b));

/** Formats that may hold text but cannot be read here: name, first bytes, and the command that unpacks a file. */
const packed: readonly (readonly [name: string, start: readonly number[], command: string])[] = [
  ['compressed with zstd', [0x28, 0xb5, 0x2f, 0xfd], 'zstd -d'],
  ['compressed with xz', [0xfd, 0x37, 0x7a, 0x58, 0x5a], 'xz -dk'],
  ['compressed with bzip2', [0x42, 0x5a, 0x68], 'bzip2 -dk'],
  ['a zip archive', [0x50, 0x4b, 0x03, 0x04], 'unzip'],
  ['a PDF', [0x25, 0x50, 0x44, 0x46], 'pdftotext'],
];

/** The end of an error, "is compressed with zstd: unpack it with `zstd -d FILE`"; undefined for other files. */
function unpackingOf(path: string): string | undefined {
  if (!statusOf(path).isFile()) return undefined;
  const start = startOf(path, 8);
  const found = packed.find(([, bytes]) => start.subarray(0, bytes.length).equals(Buffer.from(bytes)));
  // Text may begin with "BZh" too; in a bzip2 file a digit from 1 to 9 follows.
  if (!found || (found[2] === 'bzip2 -dk' && !/^[1-9]$/.test(String.fromCharCode(start[3] ?? 0)))) return undefined;
  return `is ${found[0]}: unpack it with \`${found[2]} ${shellWord(path)}\``;
}

const statusOf = (path: string): Stats => readable(path, () => statSync(path));

const filesIn = (folder: string): string[] =>
  readable(folder, () => readdirSync(folder, { withFileTypes: true }))
    .filter(({ name }) => !name.startsWith('.'))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return filesIn(path);
      return entry.isFile() || entry.isSymbolicLink() ? [path] : [];
    });

function readable<R>(path: string, work: () => R): R {
  try {
    return work();
  } catch (cause) {
    throw cannotRead(path, cause);
  }
}

const cannotRead = (path: string, cause: unknown): Gpt2Error => {
  const { code, message } = cause as NodeJS.ErrnoException;
  const reason = code === 'ENOENT' ? 'it does not exist' : message;
  return new Gpt2Error(`the text ${path} cannot be read: ${reason}; name a file or folder of text`, { cause });
};

/**
 * Reads the bytes of a file in parts; a part is valid until the next is requested. A gzip file is decompressed; for a .parquet
 * file, the bytes are its documents in `format`. `onRead` is called with the number of bytes read from the file.
 * @throws Gpt2Error if the file cannot be read or decompressed
 */
export async function* bytesOf(
  { path }: Input,
  format: Format,
  onRead: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  try {
    if (path.endsWith('.parquet')) yield* parquetDocuments({ path, format }, onRead);
    else {
      const bytes = isGzip(path) ? unpacked(path, onRead) : plain(path, onRead);
      yield* format.kind === 'jsonl' ? elementsAsLines(bytes, path) : bytes;
    }
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    throw cannotRead(path, cause);
  }
}

/** The only field with text in the first MiB of every JSON file; undefined if there is none, or not all files are JSON. */
export async function fieldOfTexts(inputs: readonly Input[]): Promise<string | undefined> {
  let lines: string[] = [];
  for (const input of inputs) {
    if (!/\.(jsonl|ndjson|json)(\.gz)?$/i.test(input.path)) return undefined;
    for await (const part of bytesOf(input, { kind: 'jsonl', field: 'text' }, () => {})) {
      // Decoding drops a byte order mark.
      const some = new TextDecoder().decode(part).split('\n');
      // The last line may be cut off.
      lines = lines.concat(some.length > 1 ? some.slice(0, -1) : some);
      break;
    }
  }
  return onlyTextField(lines);
}

async function* plain(path: string, onRead: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(readBytes);
  await using file = await open(path);
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length);
    if (bytesRead === 0) return;
    onRead(bytesRead);
    yield buffer.subarray(0, bytesRead);
  }
}

async function* unpacked(path: string, onRead: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  const packed = createReadStream(path, { highWaterMark: readBytes / 4 });
  packed.on('data', (data) => onRead(data.length));
  yield* pipeline(packed, createGunzip({ chunkSize: readBytes }), () => {});
}
