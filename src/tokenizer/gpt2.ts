// GPT-2's byte-pair encoding of UTF-8 text. The merges are the tiktoken package's; here the text is split as GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// splits it, so that a word met before is looked up. What has characters that characters.ts does not know goes to tiktoken
// whole, up to the next safe place (safe-cuts.ts). The ids are tiktoken's own, whichever way they come.
import { get_encoding, type Tiktoken } from 'tiktoken';
import { kindOfByte, space, unknown, wideKind } from './characters.ts';
import { chooseCut, nextSpaceCut } from './safe-cuts.ts';
import type { TokenList } from './tokens.ts';
import { longestWord, WordCache } from './word-cache.ts';

/**
 * Bytes that tiktoken is given at once, and the longest word: it takes time with the square of a run of letters (7 s for
 * 100,000) and fails on a million spaces.
 */
const longestPiece = 16_384;

const apostrophe = 0x27;
const blank = 0x20;

let loaded: { tiktoken: Tiktoken; words: WordCache } | undefined;
const load = () => {
  if (loaded) return loaded;
  const tiktoken = get_encoding('gpt2');
  loaded = { tiktoken, words: new WordCache((bytes, start, end) => tiktoken.encode_ordinary(text(bytes, start, end))) };
  return loaded;
};

const text = (bytes: Uint8Array, start: number, end: number): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8');

/** The bytes of a token, but not of end of text. */
export const gpt2Bytes = (id: number): Uint8Array => load().tiktoken.decode_single_token_bytes(id);

/** Appends the ids of bytes[start, end), which are valid UTF-8, as those of a text of its own. */
export function encodeGpt2(bytes: Uint8Array, start: number, end: number, into: TokenList): void {
  const { words } = load();
  // One sign in an English text costs the word it is in; a text in another writing is soon given away in long stretches.
  let stretch = 1;
  let unknownEnd = -1;
  for (let from = start; from < end; ) {
    const to = wordEnd(bytes, from, end);
    if (to < 0) {
      stretch = from === unknownEnd ? Math.min(stretch * 2, longestPiece / 4) : 1;
      from = unknownEnd = encodeUnknown(bytes, from, -to + stretch, end, into);
    } else {
      if (to - from <= longestWord) words.append(bytes, from, to, into);
      else into.append(load().tiktoken.encode_ordinary(text(bytes, from, to)));
      from = to;
    }
  }
}

/** Where the pattern's match that begins at `from` ends; -p if at p there is a character whose kind is not known (1 for 0). */
function wordEnd(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  if (bytes[at] === apostrophe) {
    const length = contraction(bytes, at, end);
    if (length > 0) return at + length;
  } else if (bytes[at] === blank && at + 1 < end && kindOfByte[bytes[at + 1]!] !== space) at++;

  const limit = Math.min(end, from + longestPiece);
  let kind = kindOfByte[bytes[at]!]!;
  let width = 1;
  if (kind === unknown) {
    const wide = wideKind(bytes, at);
    kind = wide & 7;
    width = wide >> 3;
    if (kind === unknown) return -Math.max(at, 1);
    // A blank before wide white space: a run of white space.
    if (kind === space && at > from) return spaceEnd(bytes, from, end, limit);
  }
  if (kind === space) return spaceEnd(bytes, from, end, limit);

  for (at += width; at < limit; ) {
    const next = kindOfByte[bytes[at]!]!;
    if (next === kind) at++;
    else if (next !== unknown) return at;
    else {
      const wide = wideKind(bytes, at);
      if ((wide & 7) === unknown) return -at;
      if ((wide & 7) !== kind) return at;
      at += wide >> 3;
    }
  }
  return at;
}

/** Of a run of white space all but the last character, which may belong to what follows; all at the end; a single one. */
function spaceEnd(bytes: Uint8Array, from: number, end: number, limit: number): number {
  let last = from;
  let at = from;
  while (at < limit) {
    const byte = bytes[at]!;
    const wide = byte < 0x80 ? kindOfByte[byte]! + 8 : wideKind(bytes, at);
    if ((wide & 7) === unknown) return -at;
    if ((wide & 7) !== space) break;
    last = at;
    at += wide >> 3;
  }
  return at >= end || at >= limit || last === from ? at : last;
}

/** The length of 's, 't, 'm, 'd, 're, 've, 'll at `at`, or 0. */
function contraction(bytes: Uint8Array, at: number, end: number): number {
  if (at + 1 >= end) return 0;
  const first = bytes[at + 1];
  if (first === 0x73 || first === 0x74 || first === 0x6d || first === 0x64) return 2;
  if (at + 2 >= end) return 0;
  const second = bytes[at + 2];
  if ((first === 0x72 || first === 0x76) && second === 0x65) return 3;
  return first === 0x6c && second === 0x6c ? 3 : 0;
}

/** Leaves the text from `from`, where a match begins, to tiktoken, up to a safe place from `least` on, which is returned. */
function encodeUnknown(bytes: Uint8Array, from: number, least: number, end: number, into: TokenList): number {
  const limit = Math.min(end, from + longestPiece);
  let to = nextSpaceCut(bytes, least, limit);
  if (to < 0) to = limit === end ? end : chooseCut(bytes, from + longestPiece / 2, limit);
  into.append(load().tiktoken.encode_ordinary(text(bytes, from, to)));
  return to;
}
