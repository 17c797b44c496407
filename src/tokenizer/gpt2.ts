// GPT-2's byte-pair encoding of UTF-8 text, with the merges of the tiktoken package. This file divides a text by GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// so that repeated words are found in a cache, and very long words are merged in n log n steps. The package tiktoken encodes words
// with characters that characters.ts cannot classify. The ids always equal tiktoken's.
//
// tiktoken alone would be simpler, but has a third of the speed: for 24 MB of Python, C and Markdown in 1,833 files, on one
// thread, three runs alternating (2 shared cores of an AMD EPYC, Node 20.20, 2026-11), 4.69, 4.70, 3.49 million tokens per
// second of user time with this file, 1.82, 1.49, 1.32 with tiktoken (39%, 32%, 38%). 3 MB of one letter take 2.5 s with this
// file; tiktoken 1.0.22 takes 10 s for 100 KB and fails from 1 MB on ("unreachable" in its WebAssembly).
import { createRequire } from 'node:module';
import { lazily } from '../base/lazily.ts';
import { createWideKind, kindOfByte, space, unknown, type WideKind, wideKind } from './characters.ts';
import { createMerge, type Merge } from './merge.ts';
import { endsWithSpace } from './safe-cuts.ts';
import type { TokenList } from './tokens.ts';
import { longestWord, wordCache } from './word-cache.ts';

/** Number of ids that have bytes; the next id is end of text. */
export const tokenCount = 50256;

/** Word length in bytes from which merge.ts is faster than tiktoken, whose time is quadratic: six times faster at 2,560 bytes. */
const longWord = 512;
/** The longest word in bytes; a longer word is divided, to limit memory. */
const mostBytes = 1 << 24;
/** The most bytes after an unknown character that one call of tiktoken encodes. */
const longestStretch = 4096;

const contractions = ["'s", "'t", "'m", "'d", "'re", "'ve", "'ll"].map((text) => Buffer.from(text));
const apostrophe = 0x27;
const blank = 0x20;

const require = createRequire(import.meta.url);

function openTiktoken() {
  // Opened at the first use, because opening takes 200 ms.
  const tiktoken = (require('tiktoken') as typeof import('tiktoken')).get_encoding('gpt2');
  const appendWord = wordCache((bytes, start, end) => tiktoken.encode_ordinary(text(bytes, start, end)));
  // tiktoken reveals a character's kind: after a letter, digit or space, 's is a token; any other character joins the apostrophe.
  const [contracted] = tiktoken.encode_ordinary("'s");
  const isOther = (character: string) => tiktoken.encode_ordinary(`${character}'s`).at(-1) !== contracted;
  return { tiktoken, appendWord, everyWideKind: createWideKind(isOther) };
}
const load = lazily(openTiktoken);

const loadMerge = lazily(() => createMerge(Array.from({ length: tokenCount }, (_, id) => gpt2Bytes(id))));
const merge: Merge = (...word) => loadMerge()(...word);

const text = (bytes: Uint8Array, start: number, end: number): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8');

/** tiktoken's list "! 0 IQ== Ig== ...": a mark, the first id, then the bytes of each token in base64, in the order of ids. */
const base64s = lazily((): string[] => require('tiktoken/encoders/gpt2.json').bpe_ranks.split(' ').slice(2));
/** The bytes of a token other than end of text, from tiktoken's list, which is read in 15 ms; opening tiktoken takes 200 ms. */
export const gpt2Bytes = (id: number): Uint8Array => Buffer.from(base64s()[id]!, 'base64');

/** Appends the ids of bytes[start, end), valid UTF-8, encoded as a separate text. */
export function encodeGpt2(bytes: Uint8Array, start: number, end: number, into: TokenList): void {
  const { appendWord } = load();
  // The fewest bytes that tiktoken encodes after an unknown character; doubled while unknown characters follow, as in Chinese.
  let stretch = 1;
  let unknownEnd = -1;
  for (let from = start; from < end; ) {
    const to = wordEnd(bytes, from, end);
    if (to < 0) {
      stretch = from === unknownEnd ? Math.min(stretch * 2, longestStretch) : 1;
      from = unknownEnd = encodeUnknown(bytes, from, -to + stretch, end, into);
    } else {
      if (to - from <= longestWord) appendWord(bytes, from, to, into);
      else if (to - from < longWord) encodeWords(bytes, from, to, into);
      else merge(bytes, from, to, into);
      from = to;
    }
  }
}

/** The end of the pattern's match at `from`; or -p if the character at p has an unknown kind (-1 also for p = 0). */
function wordEnd(bytes: Uint8Array, from: number, end: number, wideKindAt: WideKind = wideKind): number {
  let at = from;
  if (bytes[at] === apostrophe) {
    const length = contraction(bytes, at, end);
    if (length > 0) return at + length;
  } else if (bytes[at] === blank && at + 1 < end && kindOfByte[bytes[at + 1]!] !== space) at++;

  const limit = Math.min(end, from + mostBytes);
  let kind = kindOfByte[bytes[at]!]!;
  let width = 1;
  if (kind === unknown) {
    const wide = wideKindAt(bytes, at);
    kind = wide & 7;
    width = wide >> 3;
    if (kind === unknown) return -Math.max(at, 1);
    // A blank before white space of several bytes belongs to the same run of white space.
    if (kind === space && at > from) return spaceEnd(bytes, from, end, limit, wideKindAt);
  }
  if (kind === space) return spaceEnd(bytes, from, end, limit, wideKindAt);

  for (at += width; at < limit; ) {
    const next = kindOfByte[bytes[at]!]!;
    if (next === kind) at++;
    else if (next !== unknown) return at;
    else {
      const wide = wideKindAt(bytes, at);
      if ((wide & 7) === unknown) return -at;
      if ((wide & 7) !== kind) return at;
      at += wide >> 3;
    }
  }
  return at;
}

/** The end of a match of white space. The last white-space character goes to the next match, unless it is alone or ends the text. */
function spaceEnd(bytes: Uint8Array, from: number, end: number, limit: number, wideKindAt: WideKind): number {
  let last = from;
  let at = from;
  while (at < limit) {
    const byte = bytes[at]!;
    const wide = byte < 0x80 ? kindOfByte[byte]! + 8 : wideKindAt(bytes, at);
    if ((wide & 7) === unknown) return -at;
    if ((wide & 7) !== space) break;
    last = at;
    at += wide >> 3;
  }
  return at >= end || at >= limit || last === from ? at : last;
}

/** The length in bytes of the contraction at `at`, such as 's; 0 if there is none. */
function contraction(bytes: Uint8Array, at: number, end: number): number {
  const found = contractions.find((one) => one.every((byte, index) => byte === bytes[at + index]));
  return found && at + found.length <= end ? found.length : 0;
}

/** Encodes words by tiktoken, from `from` to a word end at or after `least`, or to the next very long word. @returns the end */
function encodeUnknown(bytes: Uint8Array, from: number, least: number, end: number, into: TokenList): number {
  const { everyWideKind } = load();
  const first = wordEnd(bytes, from, end, everyWideKind);
  if (first - from >= longWord) {
    merge(bytes, from, first, into);
    return first;
  }
  let to = first;
  for (let at = first; at < end && to < least; ) {
    at = wordEnd(bytes, at, end, everyWideKind);
    if (at - to >= longWord) break;
    // tiktoken's input must not end with white space, which tiktoken divides differently at the end of a text than inside.
    if (!endsWithSpace(bytes, at)) to = at;
  }
  encodeWords(bytes, from, to, into);
  return to;
}

function encodeWords(bytes: Uint8Array, start: number, end: number, into: TokenList): void {
  into.append(load().tiktoken.encode_ordinary(text(bytes, start, end)));
}
