// The tokenizer "char": each character of a text has an id, in the order of code points, as in nanoGPT's first example. No id
// marks the end of a text. The tokenizer's file is a tokenizer.json that the Hugging Face library `tokenizers` can read.
import { isDeepStrictEqual } from 'node:util';
import { Gpt2Error } from '../base/errors.ts';
import { codePointAt } from './characters.ts';
import { characterName } from './loss.ts';
import type { Tokenizer } from './tokenizer.ts';

export const characterTokenizerName = 'char';

/** The fields of tokenizer.json apart from the model, a word-level model whose words are single characters. */
const structure = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: [],
  normalizer: null,
  pre_tokenizer: { type: 'Split', pattern: { Regex: '[\\s\\S]' }, behavior: 'Isolated', invert: false },
  post_processor: null,
  decoder: { type: 'Fuse' },
};

const widthOf = (lead: number): number => (lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);

/** Adds the code points of bytes[start, end), valid UTF-8, to `into`. */
export function addCharacters(bytes: Uint8Array, start: number, end: number, into: Set<number>): void {
  const isThere = new Uint8Array(0x80);
  for (let at = start; at < end; ) {
    const lead = bytes[at]!;
    if (lead < 0x80) {
      isThere[lead] = 1;
      at++;
    } else {
      into.add(codePointAt(bytes, at));
      at += widthOf(lead);
    }
  }
  for (const [ascii, found] of isThere.entries()) if (found) into.add(ascii);
}

/** Makes the tokenizer "char", whose ids follow the order of code points. @param characters code points, in any order */
export function createCharacterTokenizer(characters: Iterable<number>): Tokenizer {
  const sorted = [...characters].sort((a, b) => a - b);
  const ids = new Map(sorted.map((codePoint, id) => [codePoint, id]));
  const texts = sorted.map((codePoint) => String.fromCodePoint(codePoint));
  const encoded = texts.map((text) => Uint8Array.from(Buffer.from(text)));
  const vocab = Object.fromEntries(texts.map((text, id) => [text, id]));
  return {
    name: characterTokenizerName,
    vocabularySize: sorted.length,
    endOfText: undefined,
    start: ids.get(0x0a) ?? 0,
    file: `${JSON.stringify({ ...structure, model: { type: 'WordLevel', vocab, unk_token: '' } }, null, 2)}\n`,
    append(bytes, start, end, into) {
      for (let at = start; at < end; ) {
        const lead = bytes[at]!;
        const codePoint = lead < 0x80 ? lead : codePointAt(bytes, at);
        const id = ids.get(codePoint);
        if (id === undefined) throw new UnknownCharacterError(codePoint, ids.size, at);
        into.push(id);
        at += lead < 0x80 ? 1 : widthOf(lead);
      }
    },
    bytesOf: (id) => encoded[id] ?? new Uint8Array(),
  };
}

/** The tokenizer "char" of a parsed tokenizer.json; undefined for a file with other fields than `structure`. */
export function characterTokenizerOf(parsed: object): Tokenizer | undefined {
  const { model, ...rest } = parsed as { model?: { type?: unknown; vocab?: unknown } };
  if (model?.type !== 'WordLevel' || !isDeepStrictEqual(rest, structure)) return undefined;
  const characters = Object.keys(model.vocab ?? {});
  if (characters.some((text) => [...text].length !== 1)) return undefined;
  const tokenizer = createCharacterTokenizer(characters.map((text) => text.codePointAt(0)!));
  const { model: wanted } = JSON.parse(tokenizer.file!) as { model: object };
  return isDeepStrictEqual(model, wanted) ? tokenizer : undefined;
}

/** A text has a character without an id. */
export class UnknownCharacterError extends Gpt2Error {
  /** Index of the first byte of the character in the text. */
  readonly at: number;

  /** @param known number of characters that have ids */
  constructor(codePoint: number, known: number, at: number) {
    super(
      `the character ${characterName(codePoint)} is not among the ${known} of the model's vocabulary: leave it out, or train on a text that has it`,
    );
    this.at = at;
  }
}
