// Cuts files into chunks of some megabytes for the threads that encode. A chunk ends where a document ends or may be cut into blocks
// (parts.ts), so the tokens do not depend on the chunks. Small files share a chunk.
import { type Gpt2Error, gpt2Error } from '../../../base/errors.ts';
import { type Chunk, cutsAtLines, type Encoding, type Input, type Piece } from './format.ts';
import { bytesOf } from './inputs.ts';
import { hasByteOrderMark } from './line-and-column.ts';
import { blockEnd, largestBlock } from './parts.ts';

/** Bytes of a chunk: enough to keep a thread busy for 0.1 s, few enough to hold several chunks per thread in memory. */
const chunkBytes = 4 << 20;
const longestLine = 64 << 20;

/**
 * Finds a place, `end`, at which to cut `bytes`; undefined if more bytes are needed. A document or block begins where `bytes` begin,
 * and the file continues after `bytes`. `closes`: whether a document ends at `end`.
 */
type FindCut = (bytes: Buffer) => { readonly end: number; readonly closes: boolean } | undefined;

/**
 * The chunks of files, in order. `onRead` is called with the number of bytes read. `spare` holds memory of encoded chunks for reuse:
 * new memory for each chunk, 4 MiB, would accumulate faster than the garbage collector frees it.
 * @throws Gpt2Error if a file cannot be read, or has a line that is too long
 */
export async function* chunksOf(
  inputs: readonly Input[],
  encoding: Encoding,
  { onRead = () => {}, spare = [] }: { onRead?: (bytes: number) => void; spare?: ArrayBuffer[] } = {},
): AsyncGenerator<Chunk> {
  const { format } = encoding;
  const findCut = format.kind === 'jsonl' ? afterLastLine : afterLastDocument(format.separator, cutsAtLines(encoding));
  let index = 0;
  let pieces: Piece[] = [];
  let collected = Buffer.alloc(2 * chunkBytes);
  let filled = 0;
  const take = (): Chunk => {
    const used = spare.pop();
    const memory = used && used.byteLength >= filled ? used : new ArrayBuffer(Math.max(filled, chunkBytes + (1 << 20)));
    const bytes = new Uint8Array(memory, 0, filled);
    bytes.set(collected.subarray(0, filled));
    const chunk = { index: index++, bytes, pieces };
    pieces = [];
    filled = 0;
    return chunk;
  };
  for (const input of inputs) {
    const { path, role } = input;
    // Bytes `start` to `filled` of `collected` are the current piece of the file.
    let start = filled;
    let offset = 0;
    let line = 1;
    let opens = true;
    const close = (end: number, closes: boolean) => {
      if (end > start) pieces.push({ start, end, opens, closes, role, path, offset, line });
      offset += end - start;
      if (format.kind === 'jsonl') line += lineBreaks(collected.subarray(start, end));
      opens = closes;
    };
    for await (const part of bytesOf(input, format, onRead)) {
      if (filled + part.length > collected.length) {
        const larger = Buffer.alloc(filled + part.length + chunkBytes);
        collected.copy(larger, 0, 0, filled);
        collected = larger;
      }
      collected.set(part, filled);
      filled += part.length;
      if (offset === 0 && hasByteOrderMark(collected.subarray(start, filled))) {
        collected.copyWithin(start, start + 3, filled);
        filled -= 3;
        offset = 3;
      }
      while (filled - start >= chunkBytes) {
        const cut = findCut(collected.subarray(start, filled));
        if (!cut) {
          if (filled - start > longestLine) throw tooLong(path, line);
          break;
        }
        const rest = Buffer.from(collected.subarray(start + cut.end, filled));
        filled = start + cut.end;
        close(filled, cut.closes);
        yield take();
        collected.set(rest);
        start = 0;
        filled = rest.length;
      }
    }
    close(filled, true);
    if (filled >= chunkBytes) yield take();
  }
  if (pieces.length > 0) yield take();
}

function lineBreaks(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) count++;
  return count;
}

const tooLong = (path: string, line: number): Gpt2Error =>
  gpt2Error`line ${line} of ${path} is longer than ${longestLine >> 20} MiB: use --field only for files of JSON lines`;

const afterLastLine: FindCut = (bytes) => {
  const end = bytes.lastIndexOf(0x0a) + 1;
  return end > 0 ? { end, closes: true } : undefined;
};

/** Cuts after the last separator. If the separator ends in the first half of the bytes, cuts after the last whole block. */
const afterLastDocument =
  (separator: string | undefined, atLines: boolean): FindCut =>
  (bytes) => {
    const mark = separator === undefined ? undefined : Buffer.from(separator);
    let document = 0;
    if (mark) {
      for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, document)) document = at + mark.length;
      if (document > bytes.length / 2) return { end: document, closes: true };
    }
    // The last bytes may be the start of a separator: only the bytes up to `known` surely belong to the document.
    const known = bytes.length - (mark ? mark.length - 1 : 0);
    let end = document;
    while (known - end >= largestBlock) end = blockEnd(bytes, end, known, atLines);
    return { end, closes: end === document && document > 0 };
  };
