// GPT-2's byte-pair encoding, thin over the tiktoken package: documents to ids, ids to streamed text.
import { get_encoding, type Tiktoken } from 'tiktoken';

/** <|endoftext|>, which opens every document. */
export const endOfText = 50256;

/**
 * Longer text is cut into pieces, at a line break where there is one. tiktoken takes time with the square of a run of
 * letters (7 s for 100,000) and fails on a million spaces.
 */
const longestPiece = 16_384;

let loaded: Tiktoken | undefined;
const encoding = (): Tiktoken => {
  loaded ??= get_encoding('gpt2');
  return loaded;
};

/** Ids of a text as it stands; "<|endoftext|>" written in it is ordinary text. */
export function encode(text: string): Uint32Array {
  if (text.length <= longestPiece) return encoding().encode_ordinary(text);
  const pieces = cut(text).map((piece) => encoding().encode_ordinary(piece));
  const ids = new Uint32Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let filled = 0;
  for (const piece of pieces) {
    ids.set(piece, filled);
    filled += piece.length;
  }
  return ids;
}

/** Cuts before a line break, which no token of the pattern spans from the left, or else at the limit. */
function cut(text: string): string[] {
  const pieces: string[] = [];
  let start = 0;
  while (start < text.length) {
    let end = Math.min(start + longestPiece, text.length);
    if (end < text.length) {
      const lineBreak = lastBreak(text, start, end);
      if (lineBreak > start) end = lineBreak;
      // Never between the halves of a surrogate pair.
      else if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end--;
    }
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}

/** The last place before `end` where a line break follows a character that is no white space. */
function lastBreak(text: string, start: number, end: number): number {
  for (let at = end; at > start; at--) {
    if (text[at] === '\n' && !/\s/.test(text[at - 1]!)) return at;
  }
  return -1;
}

/** Turns ids into text as they come; a character split over tokens appears with its last byte. */
export class StreamDecoder {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  /** The text that `id` completes, possibly none yet. End of text, and ids the vocabulary lacks, give none. */
  push(id: number): string {
    if (id >= endOfText) return '';
    return this.#decoder.decode(encoding().decode_single_token_bytes(id), { stream: true });
  }

  /** What is left at the end: a replacement character for an unfinished one. */
  end(): string {
    return this.#decoder.decode();
  }
}

/** The text of ids. */
export function decode(ids: Iterable<number>): string {
  const decoder = new StreamDecoder();
  let text = '';
  for (const id of ids) text += decoder.push(id);
  return text + decoder.end();
}

/** The bytes of every id before <|endoftext|>. */
export const tokenBytes = (): Uint8Array[] =>
  Array.from({ length: endOfText }, (_, id) => encoding().decode_single_token_bytes(id));
