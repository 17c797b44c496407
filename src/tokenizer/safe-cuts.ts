// Finds places to cut a UTF-8 text so that the ids of the parts are the ids of the whole. GPT-2's pattern looks ahead by one
// character and never back, so a place is safe if no match crosses it or looks past it:
//   before white space that follows another character: white space can only begin a match;
//   between a letter or digit and a punctuation mark: no match has both in this order ('s and 're have the reverse order).
// Patterns of later tokenizers may join a punctuation mark to line breaks after it. For these, only starts of lines are safe.
import { codePointAt, digit, kindOfByte, letter, other, space, unknown, wideKind } from './characters.ts';

/** Whether the character before `end` is white space. */
export function endsWithSpace(bytes: Uint8Array, end: number): boolean {
  const before = bytes[end - 1]!;
  return before < 0x80 ? kindOfByte[before] === space : endsWithWideSpace(bytes, end);
}

/** Whether the character that ends at `end` is white space of two or three bytes, or U+FEFF, which engines classify differently. */
function endsWithWideSpace(bytes: Uint8Array, end: number): boolean {
  const [last, middle, first] = [bytes[end - 1]!, bytes[end - 2]!, bytes[end - 3]!];
  if (middle === 0xc2) return last === 0x85 || last === 0xa0;
  if (first === 0xe2) return middle === 0x80 ? last <= 0x8a || (last >= 0xa8 && last <= 0xaf) : middle === 0x81;
  if (first === 0xe1) return middle === 0x9a && last === 0x80;
  if (first === 0xe3) return middle === 0x80 && last === 0x80;
  return first === 0xef && middle === 0xbb && last === 0xbf;
}

const wideSigns = new Set(Array.from('、。「」！，：；？', (sign) => sign.codePointAt(0)));
/** Letters in Kana, Han and Hangul; `wideKind` knows only Latin, Greek and Cyrillic. */
const letterRanges = [
  [0x3041, 0x3096],
  [0x30a1, 0x30fa],
  [0x4e00, 0x9fa5],
  [0xac00, 0xd7a3],
] as const;

/** Whether an ASCII, Chinese or Japanese punctuation mark begins at `at`, directly after a letter or digit. */
function isBeforeSign(bytes: Uint8Array, at: number): boolean {
  const here = bytes[at]!;
  if (here < 0x80 ? kindOfByte[here] !== other : !wideSigns.has(codePointAt(bytes, at))) return false;
  const before = bytes[at - 1]!;
  if (before < 0x80) return kindOfByte[before] === letter || kindOfByte[before] === digit;
  const start = characterStart(bytes, at - 1);
  const codePoint = codePointAt(bytes, start);
  const isInRange = letterRanges.some(([first, last]) => codePoint >= first && codePoint <= last);
  return isInRange || (wideKind(bytes, start) & 7) === letter;
}

/** Whether a line begins at `at`, with a character that is known not to be white space. */
function isStartOfLine(bytes: Uint8Array, at: number): boolean {
  if (bytes[at - 1] !== 0x0a) return false;
  const kind = bytes[at]! < 0x80 ? kindOfByte[bytes[at]!]! : wideKind(bytes, at) & 7;
  return kind !== space && kind !== unknown;
}

/**
 * Chooses a place to cut in [from, to), with `from` at least 1: with `atLines` the first start of a line; else the first safe
 * place before white space; else the first safe place before a punctuation mark; else the last place between two characters.
 */
export function chooseCut(bytes: Uint8Array, from: number, to: number, atLines = false): number {
  if (atLines) for (let at = from; at < to; at++) if (isStartOfLine(bytes, at)) return at;
  // Only ASCII white space counts, which gives enough places.
  for (let at = from; at < to; at++) if (kindOfByte[bytes[at]!] === space && !endsWithSpace(bytes, at)) return at;
  for (let at = from; at < to; at++) if (isBeforeSign(bytes, at)) return at;
  return characterStart(bytes, to - 1);
}

/** The start of the character that contains the byte at `at`. */
function characterStart(bytes: Uint8Array, at: number): number {
  let start = at;
  while (start > 0 && (bytes[start]! & 0xc0) === 0x80) start--;
  return start;
}
