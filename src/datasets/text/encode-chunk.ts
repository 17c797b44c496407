// Encodes the documents of a chunk, on a thread: finds them in the bytes, cuts long ones into blocks, encodes each block, and
// records the hash that decides its role.
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { Gpt2Error } from '../../errors.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { TokenList } from '../../tokenizer/tokens.ts';
import { blockEnd } from './blocks.ts';
import type { Chunk, Format, Piece } from './format.ts';
import type { Block, Part } from './parts.ts';

export class ChunkEncoder {
  readonly #tokenizer: Tokenizer;
  readonly #format: Format;
  readonly #tokens = new TokenList(1 << 20);
  #blocks: Block[] = [];

  constructor(tokenizer: Tokenizer, format: Format) {
    this.#tokenizer = tokenizer;
    this.#format = format;
  }

  /** The tokens' memory is reused for the next chunk. @throws Gpt2Error naming file and byte of invalid text */
  encode({ bytes, pieces }: Chunk): Part {
    this.#tokens.clear();
    this.#blocks = [];
    for (const piece of pieces) {
      const text = Buffer.from(bytes.buffer, bytes.byteOffset + piece.start, piece.end - piece.start);
      if (!isUtf8(text)) throw notUtf8(text, piece);
      if (this.#format.kind === 'jsonl') this.#lines(text, piece, this.#format.field);
      else this.#documents(text, piece, this.#format);
    }
    return { blocks: this.#blocks, tokens: this.#tokens.view() };
  }

  #documents(
    text: Buffer,
    piece: Piece,
    { separator, strip = false }: { readonly separator?: string; readonly strip?: boolean },
  ): void {
    const mark = separator === undefined ? undefined : Buffer.from(separator);
    let start = 0;
    let opens = piece.opens;
    for (let end = mark ? text.indexOf(mark) : -1; end >= 0; end = text.indexOf(mark!, start)) {
      this.#document(text, { start, end, opens, closes: true, strip }, piece);
      start = end + mark!.length;
      opens = true;
    }
    this.#document(text, { start, end: text.length, opens, closes: piece.closes, strip }, piece);
  }

  #lines(text: Buffer, piece: Piece, field: string): void {
    for (let start = 0; start < text.length; ) {
      const lineBreak = text.indexOf(0x0a, start);
      const end = lineBreak < 0 ? text.length : lineBreak;
      const line = text.toString('utf8', start, end);
      if (line.trim() !== '') {
        const document = Buffer.from(
          documentOf(line, field, `${piece.path}: the line at byte ${piece.offset + start}`),
        );
        this.#document(document, { start: 0, end: document.length, opens: true, closes: true, strip: false }, piece);
      }
      start = end + 1;
    }
  }

  /** Adds a document, or the chunk's part of it. A document of white space only is skipped. */
  #document(
    text: Buffer,
    found: { start: number; end: number; opens: boolean; closes: boolean; strip: boolean },
    { role }: Piece,
  ): void {
    let { start, end, opens } = found;
    if (opens && found.closes && isBlank(text, start, end)) return;
    if (found.strip) {
      if (opens) while (start < end && isSpace(text[start]!)) start++;
      if (found.closes) while (end > start && isSpace(text[end - 1]!)) end--;
    }
    while (start < end) {
      const next = blockEnd(text, start, end);
      const before = this.#tokens.length;
      this.#tokenizer.append(text, start, next, this.#tokens);
      const fraction = fractionOf(text.subarray(start, next));
      this.#blocks.push({ tokens: this.#tokens.length - before, opens, role, fraction });
      opens = false;
      start = next;
    }
  }
}

const isSpace = (byte: number): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);

function isBlank(text: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (!isSpace(text[at]!)) return false;
  return true;
}

const fractionOf = (text: Buffer): number => createHash('sha256').update(text).digest().readUIntBE(0, 6) / 2 ** 48;

function documentOf(line: string, field: string, where: string): string {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new Gpt2Error(
      `${where} is not JSON: ${(cause as Error).message}; --field takes files with one JSON object per line`,
      { cause },
    );
  }
  const text = value !== null && typeof value === 'object' ? (value as Record<string, unknown>)[field] : undefined;
  if (typeof text === 'string') return text;
  throw new Gpt2Error(`${where} has no text in the field "${field}": name the right field with --field`);
}

function notUtf8(text: Buffer, { path, offset }: Piece): Gpt2Error {
  const at = firstInvalid(text);
  const isUtf16 = offset + at < 2 && (text[at] === 0xff || text[at] === 0xfe);
  const from = isUtf16 ? 'UTF-16' : 'LATIN1';
  return new Gpt2Error(
    `${path} is not UTF-8 at byte ${offset + at} (0x${text[at]!.toString(16)}): leave the file out, or convert it, as with \`iconv -f ${from} -t UTF-8\``,
  );
}

/** The length of the longest prefix that is UTF-8. */
function firstInvalid(text: Buffer): number {
  let valid = 0;
  let invalid = text.length;
  // A prefix may end within a character, after at most three of its bytes.
  const isValidTo = (end: number) => [0, 1, 2, 3].some((less) => end >= less && isUtf8(text.subarray(0, end - less)));
  while (invalid - valid > 4) {
    const middle = (valid + invalid) >> 1;
    if (isValidTo(middle)) valid = middle;
    else invalid = middle;
  }
  let end = Math.max(0, valid - 3);
  while (end > 0 && !isUtf8(text.subarray(0, end))) end--;
  for (let more = end + 1; more <= text.length && more - end <= 4; more++) {
    if (isUtf8(text.subarray(0, more))) {
      end = more;
      more = end;
    }
  }
  return end;
}
