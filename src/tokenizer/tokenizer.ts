// Encodes text to token ids and decodes them, with GPT-2's byte pairs (gpt2.ts) or plain bytes. Both have an id for the end of a
// document, and reproduce any text. safe-cuts.ts divides texts that do not fit in memory.
import { encodeGpt2, gpt2Bytes, tokenCount } from './gpt2.ts';
import { TokenList } from './tokens.ts';

/** A vocabulary with its encoding. */
export interface Tokenizer {
  /** The name in dataset.json: "gpt2" or "bytes". */
  readonly name: string;
  /** Number of ids, including end of text. */
  readonly vocabularySize: number;
  /** <|endoftext|>, which opens every document; the last id. */
  readonly endOfText: number;
  /** Appends the ids of bytes[start, end), valid UTF-8, encoded as a separate text. */
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

/** Every byte is an id: all languages alike, a small head, and four times as many ids as GPT-2 for English. */
export const bytes: Tokenizer = {
  name: 'bytes',
  vocabularySize: 257,
  endOfText: 256,
  append: (text, start, end, into) => into.append(text.subarray(start, end)),
  bytesOf: (id) => Uint8Array.of(id),
};

const tokenizers: readonly Tokenizer[] = [gpt2, bytes];
export const tokenizerNames: readonly string[] = tokenizers.map(({ name }) => name);

/**
 * The tokenizer with this name ("gpt2" or "bytes"), or undefined.
 * @example const tokenizer = tokenizerNamed(readDataset('data/tinyshakespeare')?.tokenizer ?? 'gpt2');
 */
export const tokenizerNamed = (name: string): Tokenizer | undefined =>
  tokenizers.find((tokenizer) => tokenizer.name === name);

/**
 * The tokenizer of a model, by the size of its vocabulary. A model with more ids than GPT-2's has GPT-2's tokenizer. Undefined for
 * another size: without a known tokenizer there is nothing to decode.
 * @example const tokenizer = tokenizerOf(model.config);
 */
export function tokenizerOf({ vocabularySize }: { readonly vocabularySize: number }): Tokenizer | undefined {
  return vocabularySize > gpt2.vocabularySize ? gpt2 : exactTokenizerOf({ vocabularySize });
}

/** The tokenizer whose ids are exactly those of a model; files of other programs have one token for each row of wte. */
export const exactTokenizerOf = ({ vocabularySize }: { readonly vocabularySize: number }): Tokenizer | undefined =>
  tokenizers.find((tokenizer) => tokenizer.vocabularySize === vocabularySize);

/** The bytes of each id's text; 0 for an id without text, such as end of text. Undefined for an unknown tokenizer. */
export function byteLengths(name: string, vocabularySize: number): Uint8Array | undefined {
  const tokenizer = tokenizerNamed(name);
  if (!tokenizer) return undefined;
  const bytesOf = (_: unknown, id: number) => (id < tokenizer.endOfText ? tokenizer.bytesOf(id).length : 0);
  return Uint8Array.from({ length: vocabularySize }, bytesOf);
}

/**
 * The token ids of a text, by default GPT-2's; "<|endoftext|>" in it is ordinary text.
 * @example const ids = encode('Hello world'); // Uint32Array [15496, 995]
 */
export function encode(text: string, tokenizer: Tokenizer = gpt2): Uint32Array {
  const ids = new TokenList();
  const utf8 = Buffer.from(text);
  tokenizer.append(utf8, 0, utf8.length, ids);
  return Uint32Array.from(ids.view());
}

/**
 * Decodes ids one by one; a character divided between tokens appears with its last byte.
 * @example
 * const decoder = new StreamDecoder();
 * for (const id of [15496, 995]) process.stdout.write(decoder.push(id));
 * process.stdout.write(decoder.end());
 */
export class StreamDecoder {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #tokenizer: Tokenizer;

  constructor(tokenizer: Tokenizer = gpt2) {
    this.#tokenizer = tokenizer;
  }

  /** The text that `id` completes, possibly none. End of text and ids outside the vocabulary have none. */
  push(id: number): string {
    if (id >= this.#tokenizer.endOfText) return '';
    return this.#decoder.decode(this.#tokenizer.bytesOf(id), { stream: true });
  }

  /** The rest at the end: a replacement character for an incomplete one. */
  end(): string {
    return this.#decoder.decode();
  }
}

/**
 * The text of token ids, by default GPT-2's.
 * @example console.log(decode([15496, 995])); // "Hello world"
 */
export function decode(ids: Iterable<number>, tokenizer: Tokenizer = gpt2): string {
  const decoder = new StreamDecoder(tokenizer);
  let text = '';
  for (const id of ids) text += decoder.push(id);
  return text + decoder.end();
}
