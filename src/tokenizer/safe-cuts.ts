// Finds places to cut a UTF-8 text so that the ids of the parts are the ids of the whole. GPT-2's pattern looks ahead by one
// character and never back, so a place is safe if every match ends there and none looks past it:
//   before white space that follows another character: white space only begins a match;
//   between a letter or digit and a punctuation mark: no match has both. (Not after a mark: 's and 're have both.)
import { digit, kindOfByte, letter, other, space, wideKind } from './characters.ts';

/** Whether a cut before the white space at `at` is safe. Only ASCII white space counts, which gives enough places. */
function isBeforeSpace(bytes: Uint8Array, at: number): boolean {
  return kindOfByte[bytes[at]!] === space && !endsWithSpace(bytes, at);
}

/** Whether the character before `end` is white space. */
export function endsWithSpace(bytes: Uint8Array, end: number): boolean {
  const before = bytes[end - 1]!;
  return before < 0x80 ? kindOfByte[before] === space : endsWithWideSpace(bytes, end);
}

/** Whether a character of two or three bytes that is white space, or U+FEFF, over which engines disagree, ends at `end`. */
function endsWithWideSpace(bytes: Uint8Array, end: number): boolean {
  const [last, middle, first] = [bytes[end - 1]!, bytes[end - 2]!, bytes[end - 3]!];
  if (middle === 0xc2) return last === 0x85 || last === 0xa0;
  if (first === 0xe2) return middle === 0x80 ? last <= 0x8a || (last >= 0xa8 && last <= 0xaf) : middle === 0x81;
  if (first === 0xe1) return middle === 0x9a && last === 0x80;
  if (first === 0xe3) return middle === 0x80 && last === 0x80;
  return first === 0xef && middle === 0xbb && last === 0xbf;
}

/** Whether a letter or digit ends before `at` and an ASCII, Chinese or Japanese punctuation mark begins there. */
function isBeforeSign(bytes: Uint8Array, at: number): boolean {
  const here = bytes[at]!;
  // U+3001, U+3002, U+300C, U+300D and U+FF01, U+FF0C, U+FF1A, U+FF1B, U+FF1F
  const isSign =
    here < 0x80
      ? kindOfByte[here] === other
      : here === 0xe3
        ? bytes[at + 1] === 0x80 && [0x81, 0x82, 0x8c, 0x8d].includes(bytes[at + 2]!)
        : here === 0xef && bytes[at + 1] === 0xbc && [0x81, 0x8c, 0x9a, 0x9b, 0x9f].includes(bytes[at + 2]!);
  if (!isSign) return false;
  const before = bytes[at - 1]!;
  if (before < 0x80) return kindOfByte[before] === letter || kindOfByte[before] === digit;
  return endsWithLetter(bytes, at);
}

function endsWithLetter(bytes: Uint8Array, end: number): boolean {
  if (bytes[end - 2]! >= 0xc0) return (wideKind(bytes, end - 2) & 7) === letter;
  const first = bytes[end - 3]!;
  if (first < 0xe0 || first > 0xef) return false;
  const codePoint = ((first & 0x0f) << 12) | ((bytes[end - 2]! & 0x3f) << 6) | (bytes[end - 1]! & 0x3f);
  const [kana, han, hangul] = [
    (codePoint >= 0x3041 && codePoint <= 0x3096) || (codePoint >= 0x30a1 && codePoint <= 0x30fa),
    codePoint >= 0x4e00 && codePoint <= 0x9fa5,
    codePoint >= 0xac00 && codePoint <= 0xd7a3,
  ];
  return kana || han || hangul;
}

/** The first safe place before white space in [from, to), or -1; `from` is at least 1. */
function nextSpaceCut(bytes: Uint8Array, from: number, to: number): number {
  for (let at = from; at < to; at++) if (isBeforeSpace(bytes, at)) return at;
  return -1;
}

/**
 * Chooses a place to cut in [from, to): the first safe one before white space; else the first before a punctuation mark; else
 * the last between two characters.
 */
export function chooseCut(bytes: Uint8Array, from: number, to: number): number {
  const beforeSpace = nextSpaceCut(bytes, from, to);
  if (beforeSpace >= 0) return beforeSpace;
  for (let at = from; at < to; at++) if (isBeforeSign(bytes, at)) return at;
  return characterStart(bytes, to - 1);
}

/** The start of the character that contains the byte at `at`. */
function characterStart(bytes: Uint8Array, at: number): number {
  let start = at;
  while (start > 0 && (bytes[start]! & 0xc0) === 0x80) start--;
  return start;
}
