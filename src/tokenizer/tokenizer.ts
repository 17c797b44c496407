// Text to ids and back, in one of two vocabularies: GPT-2's byte pairs (gpt2.ts), or plain bytes. Both end a document with
// an id of its own; both take any text and give it back. Texts too long to hold are cut by safe-cuts.ts.
import { encodeGpt2, gpt2Bytes, tokenCount } from './gpt2.ts';
import { TokenList } from './tokens.ts';

export interface Tokenizer {
  /** As dataset.json has it. */
  readonly name: string;
  /** Ids there are, end of text with them. */
  readonly vocabularySize: number;
  /** <|endoftext|>, which opens every document; the last id. */
  readonly endOfText: number;
  /** Appends the ids of bytes[start, end): valid UTF-8, taken as a text of its own. */
  append(bytes: Uint8Array, start: number, end: number, into: TokenList): void;
  /** The bytes of an id below `endOfText`. */
  bytesOf(id: number): Uint8Array;
}

/** <|endoftext|> of GPT-2. */
export const endOfText = tokenCount;

export const gpt2: Tokenizer = {
  name: 'gpt2',
  vocabularySize: endOfText + 1,
  endOfText,
  append: encodeGpt2,
  bytesOf: gpt2Bytes,
};

/** Every byte is an id: any language alike, a small head, and four times as many ids as GPT-2's in English. */
export const bytes: Tokenizer = {
  name: 'bytes',
  vocabularySize: 257,
  endOfText: 256,
  append: (text, start, end, into) => into.append(text.subarray(start, end)),
  bytesOf: (id) => Uint8Array.of(id),
};

const tokenizers: readonly Tokenizer[] = [gpt2, bytes];
export const tokenizerNames: readonly string[] = tokenizers.map(({ name }) => name);

export const tokenizerNamed = (name: string): Tokenizer | undefined =>
  tokenizers.find((tokenizer) => tokenizer.name === name);

/**
 * The tokenizer of a model: the one whose vocabulary it has, so that a checkpoint knows it wherever it came from. A model that has
 * more ids than GPT-2's has GPT-2's. Undefined for another vocabulary, whose ids are nobody's text.
 */
export function tokenizerOf({ vocabularySize }: { readonly vocabularySize: number }): Tokenizer | undefined {
  if (vocabularySize > gpt2.vocabularySize) return gpt2;
  return tokenizers.find((tokenizer) => tokenizer.vocabularySize === vocabularySize);
}

/** Ids of a text as it stands; "<|endoftext|>" written in it is ordinary text. */
export function encode(text: string, tokenizer: Tokenizer = gpt2): Uint32Array {
  const ids = new TokenList();
  const utf8 = Buffer.from(text);
  tokenizer.append(utf8, 0, utf8.length, ids);
  return Uint32Array.from(ids.view());
}

/** Turns ids into text as they come; a character split over tokens appears with its last byte. */
export class StreamDecoder {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #tokenizer: Tokenizer;

  constructor(tokenizer: Tokenizer = gpt2) {
    this.#tokenizer = tokenizer;
  }

  /** The text that `id` completes, possibly none yet. End of text, and ids the vocabulary lacks, give none. */
  push(id: number): string {
    if (id >= this.#tokenizer.endOfText) return '';
    return this.#decoder.decode(this.#tokenizer.bytesOf(id), { stream: true });
  }

  /** What is left at the end: a replacement character for an unfinished one. */
  end(): string {
    return this.#decoder.decode();
  }
}

/** The text of ids. */
export function decode(ids: Iterable<number>, tokenizer: Tokenizer = gpt2): string {
  const decoder = new StreamDecoder(tokenizer);
  let text = '';
  for (const id of ids) text += decoder.push(id);
  return text + decoder.end();
}
