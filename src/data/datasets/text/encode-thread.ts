// Runs on a thread: encodes chunks from thread-pool.ts, one at a time, and writes the tokens of each to a part file. The thread finds
// the documents in the bytes, cuts long documents into blocks, encodes each block, and records the hash that decides the block's
// role. For the tokenizer "char", an earlier run of the threads only collects characters.
import { hash } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import { explained, Gpt2Error, gpt2Error, shortList, shown, words } from '../../../base/errors.ts';
import { faultOfUtf8, parseJson } from '../../../base/files/strict-text.ts';
import { addCharacters, UnknownCharacterError } from '../../../tokenizer/character-tokenizer.ts';
import { type Loss, sumOf } from '../../../tokenizer/loss.ts';
import { builtInNamed, type Tokenizer, wellFormed } from '../../../tokenizer/tokenizer.ts';
import { parseTokenizer } from '../../../tokenizer/tokenizer-file.ts';
import { TokenList } from '../../../tokenizer/tokens.ts';
import { type Chunk, cutsAtLines, type FileRole, type Piece } from './format.ts';
import { bytesOf } from './inputs.ts';
import { isSpace, textsIn } from './json-lines.ts';
import { placeAfter, textStart } from './line-and-column.ts';
import { type Block, blockEnd, type Part, partPath, writePart } from './parts.ts';
import type { Answer, Order, Task } from './thread-pool.ts';

const { encoding, tokenizerFile, tokenizerPath, folder } = workerData as Task;
const { format } = encoding;
const tokenizer =
  tokenizerFile === undefined ? builtInNamed(encoding.tokenizer) : parseTokenizer(tokenizerFile, tokenizerPath);
const characters = new Set<number>();
const append: Tokenizer['append'] =
  tokenizer?.append ?? ((text, start, end) => addCharacters(text, start, end, characters));
/** The tokens of the current chunk; the next chunk reuses the memory. */
const tokens = new TokenList(1 << 20);
let blocks: Block[] = [];
let losses: Loss[] = [];
/** Number of rows and JSON lines that are left out, because their text is only white space. */
let empty = 0;

interface Waiting {
  readonly text: Buffer;
  readonly start: number;
  readonly end: number;
  /** `isFirst`: this is the document's first block in this chunk. `opens`: the document begins in this chunk. */
  readonly isFirst: boolean;
  readonly opens: boolean;
  readonly role: FileRole;
  readonly place: typeof current;
}
/** Approximate bytes of text in one call of a tokenizer that encodes several texts at once. */
const batchBytes = 1 << 20;
let waiting: Waiting[] = [];
let waitingBytes = 0;

parentPort!.on('message', async ({ chunk, key }: Order) => {
  const answer: Answer = { memory: chunk.bytes.buffer };
  try {
    const part = encode(chunk);
    if (folder !== undefined) writePart(partPath(folder, chunk.index), key, part);
    else Object.assign(answer, { characters });
  } catch (error) {
    if (!(error instanceof Gpt2Error)) throw error;
    const { message } = error instanceof UnknownCharacterError ? await withPlace(error) : error;
    Object.assign(answer, { refusal: message });
  }
  parentPort!.postMessage(answer, [answer.memory]);
});

/** The place of the text that is being encoded, for errors: the piece of a file and, in JSON lines, "line 3 of b.jsonl". */
let current: { readonly piece: Piece; readonly line: string | undefined };

/** Adds file and line to an error and, unless the file has JSON lines, the column. */
async function withPlace(error: UnknownCharacterError): Promise<UnknownCharacterError> {
  const { piece, line } = current;
  if (line !== undefined) return error.with({ where: line });
  let left = piece.offset + error.at;
  let place = textStart;
  for await (const part of bytesOf({ ...piece, bytes: 0 }, format, () => {})) {
    place = placeAfter(part.subarray(0, left), place);
    left -= part.length;
    if (left <= 0) break;
  }
  return error.with({ where: `line ${place.line}, column ${place.column} of ${piece.path}` });
}

/** Encodes a chunk. @throws Gpt2Error naming file and byte of invalid text */
function encode({ bytes, pieces }: Chunk): Part {
  tokens.clear();
  [blocks, losses, waiting, waitingBytes, empty] = [[], [], [], 0, 0];
  for (const piece of pieces) {
    current = { piece, line: undefined };
    const text = Buffer.from(bytes.buffer, bytes.byteOffset + piece.start, piece.end - piece.start);
    const fault = faultOfUtf8(text, piece.offset);
    if (fault !== undefined)
      throw gpt2Error`${piece.path} ${fault}: leave the file out, or convert it from its encoding, such as LATIN1, GB18030 or UTF-16, with \`iconv -f ENCODING -t UTF-8\``;
    if (format.kind === 'jsonl') addLines(text, piece, format.field);
    else addDocuments(text, piece, format);
  }
  encodeWaiting();
  return { blocks, tokens: tokens.view(), loss: sumOf(losses), empty };
}

function addDocuments(
  text: Buffer,
  piece: Piece,
  { separator, strip = false }: { readonly separator?: string; readonly strip?: boolean },
): void {
  const mark = separator === undefined ? undefined : Buffer.from(separator);
  let start = 0;
  let opens = piece.opens;
  for (let end = mark ? text.indexOf(mark) : -1; end >= 0; end = text.indexOf(mark!, start)) {
    addDocument(text, { start, end, opens, closes: true, strip }, piece);
    start = end + mark!.length;
    opens = true;
  }
  addDocument(text, { start, end: text.length, opens, closes: piece.closes, strip }, piece);
}

function addLines(text: Buffer, piece: Piece, field: string): void {
  let { line: number } = piece;
  for (let start = 0; start < text.length; number++) {
    const lineBreak = text.indexOf(0x0a, start);
    const end = lineBreak < 0 ? text.length : lineBreak;
    const line = text.toString('utf8', start, end);
    if (line.trim() !== '') {
      const where = `line ${number} of ${piece.path}`;
      current = { piece, line: where };
      const document = Buffer.from(wellFormed(documentOf(line, field, where), where));
      addDocument(document, { start: 0, end: document.length, opens: true, closes: true, strip: false }, piece);
    }
    start = end + 1;
  }
}

/** Cuts a document, or as much of it as is in the chunk, into blocks to encode. Skips a document that is only white space. */
function addDocument(
  text: Buffer,
  found: { start: number; end: number; opens: boolean; closes: boolean; strip: boolean },
  { role }: Piece,
): void {
  let { start, end } = found;
  const { opens } = found;
  if (opens && found.closes && text.subarray(start, end).every(isSpace)) {
    if (format.kind === 'jsonl') empty++;
    return;
  }
  if (found.strip) {
    if (opens) while (start < end && isSpace(text[start]!)) start++;
    if (found.closes) while (end > start && isSpace(text[end - 1]!)) end--;
  }
  for (let isFirst = true; start < end; isFirst = false) {
    const next = blockEnd(text, start, end, cutsAtLines(encoding));
    waiting.push({ text, start, end: next, isFirst, opens, role, place: current });
    waitingBytes += next - start;
    if (!tokenizer?.encodeAll || waitingBytes >= batchBytes) encodeWaiting();
    start = next;
  }
}

/** Whether the next block with at least one token is the first such block of its document. */
let isToOpen = false;

function encodeWaiting(): void {
  const encoded = tokenizer?.encodeAll?.(waiting.map(({ text, start, end }) => text.toString('utf8', start, end)));
  if (encoded) losses.push(encoded.loss);
  for (const [index, { text, start, end, isFirst, opens, role, place }] of waiting.entries()) {
    if (isFirst) isToOpen = opens;
    const before = tokens.length;
    current = place;
    if (encoded) tokens.append(encoded.ids[index]!);
    else append(text, start, end, tokens);
    // A block has no tokens if the tokenizer drops all its characters.
    if (tokens.length === before) continue;
    const fraction = fractionOf(text.subarray(start, end));
    blocks.push({ tokens: tokens.length - before, opens: isToOpen, role, fraction });
    isToOpen = false;
  }
  [waiting, waitingBytes] = [[], 0];
}

const fractionOf = (text: Buffer): number => hash('sha256', text, 'buffer').readUIntBE(0, 6) / 2 ** 48;

function documentOf(line: string, field: string, where: string): string {
  const key = JSON.stringify(field);
  // `parseJson` refuses a field that occurs twice, but takes three times as long as JSON.parse: it runs only if the name occurs twice.
  const isTwice = line.includes(key, line.indexOf(key) + key.length);
  const value = explained(`${where} is not JSON`, words`--field takes files with one JSON object per line`, () =>
    isTwice ? parseJson(line) : JSON.parse(line),
  );
  if (typeof value === 'string') return value;
  const found = value !== null && typeof value === 'object' ? (value as Record<string, unknown>)[field] : undefined;
  if (typeof found === 'string') return found;
  const texts = textsIn(value);
  const known = texts.length > 0 ? words`name one of ${shortList(texts, 10)} with --field` : 'remove the line';
  const why = found === undefined ? '' : `: it is ${shown(found)}`;
  throw gpt2Error`${where} has no text in the field "${field}"${why}; ${known}`;
}
