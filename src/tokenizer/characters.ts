// Classifies characters of UTF-8 text into the kinds of GPT-2's pattern: \s, \p{L}, \p{N}, or other. A character is `unknown` if
// versions of Unicode since 7.0, or regex engines, may disagree on its kind; gpt2.ts passes unknown characters to tiktoken.
// White space is Unicode's White_Space (JavaScript's \s also has U+FEFF and lacks U+0085).

export const unknown = 0;
export const space = 1;
export const letter = 2;
export const digit = 3;
export const other = 4;

const kindOf = (codePoint: number): number => {
  const character = String.fromCodePoint(codePoint);
  if (/\p{Cn}/u.test(character)) return unknown;
  if (/\p{White_Space}/u.test(character)) return space;
  if (/\p{L}/u.test(character)) return letter;
  return /\p{N}/u.test(character) ? digit : other;
};

/** Kinds by code point: Latin, Greek and Cyrillic up to U+052F, and punctuation from U+2000 on; unknown between these ranges. */
const kinds = Uint8Array.from({ length: 0x2060 }, (_, codePoint) =>
  codePoint < 0x530 || codePoint >= 0x2000 ? kindOf(codePoint) : unknown,
);

/** Kind of a one-byte character; `unknown` for the first byte of a longer character, whose kind `wideKind` returns. */
export const kindOfByte: Uint8Array = kinds.slice(0, 256).fill(unknown, 0x80);

/** The code point of the character of two or more bytes at `at`. */
export function codePointAt(bytes: Uint8Array, at: number): number {
  const lead = bytes[at]!;
  const second = bytes[at + 1]! & 0x3f;
  if (lead < 0xe0) return ((lead & 0x1f) << 6) | second;
  const third = bytes[at + 2]! & 0x3f;
  if (lead < 0xf0) return ((lead & 0x0f) << 12) | (second << 6) | third;
  return ((lead & 0x07) << 18) | (second << 12) | (third << 6) | (bytes[at + 3]! & 0x3f);
}

/** Kind and length of the character of two or more bytes at `at`: kind + 8 * bytes. The text is valid UTF-8. */
export function wideKind(bytes: Uint8Array, at: number): number {
  const codePoint = codePointAt(bytes, at);
  const width = codePoint < 0x800 ? 2 : codePoint < 0x10000 ? 3 : 4;
  return (codePoint < kinds.length ? kinds[codePoint]! : unknown) + 8 * width;
}

export type WideKind = typeof wideKind;

/**
 * Makes a `WideKind` that never returns `unknown`: `isOther` decides for characters on which engines may differ. A character
 * that is not `other`, and that this engine does not know, counts as a letter. If the character is in fact a digit, the ids are
 * the same, because no token of GPT-2 joins so new a character to another one.
 */
export function createWideKind(isOther: (character: string) => boolean): WideKind {
  const learned = new Uint8Array(0x110000);
  const learn = (codePoint: number): number => {
    if (isOther(String.fromCodePoint(codePoint))) return other;
    const kind = kindOf(codePoint);
    return kind === space || kind === digit ? kind : letter;
  };
  return (bytes, at) => {
    const kind = wideKind(bytes, at);
    if ((kind & 7) !== unknown) return kind;
    const codePoint = codePointAt(bytes, at);
    learned[codePoint] ||= learn(codePoint);
    return kind + learned[codePoint]!;
  };
}
