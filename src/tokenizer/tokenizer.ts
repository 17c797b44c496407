// Encodes text to token ids and decodes them. Built in are GPT-2's byte pairs (gpt2.ts) and plain bytes: both have an id for the
// end of a document, and reproduce any text. tokenizer-file.ts reads other tokenizers. safe-cuts.ts divides long texts.
import { checkArguments, checkValue, whole } from '../base/checks/given.ts';
import { gpt2Error, shown, usageError } from '../base/errors.ts';
import { encodeGpt2, gpt2Bytes, tokenCount } from './gpt2.ts';
import { characterName, type Loss, percent } from './loss.ts';
import { TokenList } from './tokens.ts';

/** The name of every tokenizer that the Hugging Face library reads (huggingface-tokenizer.ts). */
export const huggingFaceName = 'huggingface';

/** A vocabulary of token ids, with functions that encode and decode text. */
export interface Tokenizer {
  /** The name in dataset.json: "gpt2", "bytes", "char", "huggingface". */
  readonly name: string;
  /** Number of ids, including end of text. */
  readonly vocabularySize: number;
  /** <|endoftext|>, which opens every document; undefined if the vocabulary has none. */
  readonly endOfText: number | undefined;
  /** The id with which a text without a prompt begins: end of text, or else a line break or the first id, as in nanoGPT. */
  readonly start: number;
  /** The content of tokenizer.json, which accompanies data and weights; undefined if the tokenizer is built in. */
  readonly file?: string | undefined;
  /** Appends the ids of bytes[start, end), valid UTF-8, as a separate text. @throws Gpt2Error for a character without an id */
  append(bytes: Uint8Array, start: number, end: number, into: TokenList): void;
  /** Encodes several texts in one call, and finds characters that the ids lose. Undefined if the ids reproduce every text. */
  readonly encodeAll?: ((texts: readonly string[]) => Encoded) | undefined;
  /** With `encodeAll`: the share of a data set's characters that are lost (dataset.json); undefined if not known. */
  readonly lost?: number | undefined;
  /**
   * The bytes of an id's text; none for end of text and for ids outside the vocabulary. If a token's text depends on the token's
   * neighbours, this is undefined and `decode` is defined.
   */
  readonly bytesOf?: ((id: number) => Uint8Array) | undefined;
  readonly decode?: ((ids: readonly number[]) => string) | undefined;
}

/** The ids of texts, and the characters that are lost. */
export interface Encoded {
  readonly ids: readonly Uint32Array[];
  readonly loss: Loss;
}

/** A tokenizer that needs no file. Its last id is end of text. */
export interface BuiltInTokenizer extends Tokenizer {
  readonly endOfText: number;
  readonly bytesOf: (id: number) => Uint8Array;
}

/** The id of GPT-2's <|endoftext|>: 50256. */
export const endOfText = tokenCount;

const none = new Uint8Array();

export const gpt2: BuiltInTokenizer = {
  name: 'gpt2',
  vocabularySize: endOfText + 1,
  endOfText,
  start: endOfText,
  append: encodeGpt2,
  bytesOf: (id) => (id < endOfText ? gpt2Bytes(id) : none),
};

/** Every byte is an id. No language is favoured and the LM head is small, but English takes four times as many ids as in GPT-2. */
export const bytes: BuiltInTokenizer = {
  name: 'bytes',
  vocabularySize: 257,
  endOfText: 256,
  start: 256,
  append: (text, start, end, into) => into.append(text.subarray(start, end)),
  bytesOf: (id) => (id < 256 ? Uint8Array.of(id) : none),
};

export const builtInTokenizers: readonly BuiltInTokenizer[] = [gpt2, bytes];

/** The built-in tokenizer of this name, as dataset.json records it; undefined for any other name. */
export const builtInNamed = (name: string): BuiltInTokenizer | undefined =>
  builtInTokenizers.find((tokenizer) => tokenizer.name === name);

/**
 * The built-in tokenizer with this name, "gpt2" or "bytes".
 * @throws UsageError for any other name
 * @example const ids = encode('Hello world', tokenizerNamed('bytes'));
 */
export function tokenizerNamed(name: string): BuiltInTokenizer {
  const tokenizer = builtInNamed(name);
  if (tokenizer) return tokenizer;
  const names = builtInTokenizers.map(({ name }) => name).join(', ');
  throw usageError`tokenizer takes one of ${names}, or what readDatasetTokenizer() or readTokenizer() returns, not ${shown(name)}`;
}

/** The tokenizer that a program passes, as an object or by a built-in name. @throws UsageError for any other value */
export function chosenTokenizer(choice: Tokenizer | string): Tokenizer {
  if (typeof choice === 'string') return tokenizerNamed(choice);
  checkArguments({ tokenizer: choice });
  return choice;
}

/**
 * The built-in tokenizer of a model that came without a tokenizer, by the size of its vocabulary. A model with more ids than
 * GPT-2 has GPT-2's tokenizer. Undefined for any other size: the model's ids then cannot be decoded.
 * @example const tokenizer = tokenizerOf(model.config);
 */
export function tokenizerOf({ vocabularySize }: Pick<Tokenizer, 'vocabularySize'>): BuiltInTokenizer | undefined {
  return vocabularySize > gpt2.vocabularySize ? gpt2 : exactTokenizerOf({ vocabularySize });
}

/** The built-in tokenizer with exactly a model's number of ids; undefined if there is none. */
export const exactTokenizerOf = ({ vocabularySize }: Pick<Tokenizer, 'vocabularySize'>): BuiltInTokenizer | undefined =>
  builtInTokenizers.find((tokenizer) => tokenizer.vocabularySize === vocabularySize);

/**
 * The number of bytes of each id's text; 0 for an id without text, such as end of text. Undefined if the bytes depend on the id's
 * neighbours, or if encoding with this tokenizer may drop characters of the text.
 */
export const byteLengths = (tokenizer: Tokenizer, vocabularySize: number): Uint8Array | undefined =>
  noByteLengths(tokenizer) === undefined
    ? Uint8Array.from({ length: vocabularySize }, (_, id) => tokenizer.bytesOf!(id).length)
    : undefined;

/** The reason for which `byteLengths` returns undefined; undefined if it returns the lengths. */
export function noByteLengths({ bytesOf, encodeAll, lost }: Tokenizer): string | undefined {
  if (!bytesOf) return 'this tokenizer does not reproduce every text';
  if (!encodeAll || lost === 0) return undefined;
  if (lost !== undefined)
    return `the data set lacks ${percent(lost)} of the characters of its text, which its tokenizer lost`;
  return 'it is not known whether the tokenizer lost a part of the text; make the data set again with prepro';
}

/** Returns `text`. @throws Gpt2Error for half of a surrogate pair, which JSON can spell, and which would become U+FFFD */
export function wellFormed(text: string, where = 'the text'): string {
  const half = /\p{Surrogate}/u.exec(text);
  if (half) throw gpt2Error`${where} has ${characterName(half[0].charCodeAt(0))}, half of a character: remove it`;
  return text;
}

/**
 * The token ids of a text, by default GPT-2's; "<|endoftext|>" in it is ordinary text.
 * @throws UsageError if `text` is no text; Gpt2Error for a character without an id, or an unpaired surrogate
 * @example const ids = encode('Hello world'); // Uint32Array [15496, 995]
 */
export function encode(text: string, tokenizer: Tokenizer = gpt2): Uint32Array {
  checkArguments({ text, tokenizer });
  const utf8 = Buffer.from(wellFormed(text));
  if (tokenizer.encodeAll) {
    const { ids, loss } = tokenizer.encodeAll([text]);
    const lost = [...loss.lost.keys()].find((each) => /\S/.test(String.fromCodePoint(each)));
    if (lost === undefined) return ids[0]!;
    throw gpt2Error`the model's tokenizer has no ids for the character ${characterName(lost)}: leave it out, or take a model whose tokenizer has it`;
  }
  const ids = new TokenList();
  tokenizer.append(utf8, 0, utf8.length, ids);
  return Uint32Array.from(ids.view());
}

/** Checks a tokenizer for a model. @throws UsageError if the tokenizer has more ids than the model's vocabulary; fewer are allowed */
export function checkTokenizer({ name, vocabularySize: ids }: Tokenizer, model: { vocabularySize: number }): void {
  const { vocabularySize: most } = model;
  if (ids > most)
    throw usageError`the tokenizer ${name} has ${ids} ids, over the model's vocabulary of ${most}; use the model's tokenizer`;
}

/** The ids that a model continues: end of text, which precedes every document of the training data, then the prompt's ids. */
export function promptIds(prompt: string, tokenizer: Tokenizer): number[] {
  const { endOfText, start } = tokenizer;
  const ids = prompt === '' ? [] : encode(prompt, tokenizer);
  return endOfText === undefined && ids.length > 0 ? [...ids] : [start, ...ids];
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
  /** For a tokenizer without `bytesOf`: the latest ids, how many of these have had their text returned, and the returned text. */
  #ids: number[];
  #known: number;
  #text: string;

  /** @param after ids of the preceding text, such as a prompt; a space between the two texts may depend on them */
  constructor(tokenizer: Tokenizer = gpt2, after: readonly number[] = []) {
    checkArguments({ tokenizer, after });
    this.#tokenizer = tokenizer;
    this.#ids = [...after];
    this.#known = after.length;
    this.#text = tokenizer.decode?.(after) ?? '';
  }

  /** The text that `id` completes, possibly none. End of text and ids outside the vocabulary have none. */
  push(id: number): string {
    checkValue('id', whole(0), id);
    const { bytesOf } = this.#tokenizer;
    if (bytesOf) return this.#decoder.decode(bytesOf(id), { stream: true });
    this.#ids.push(id);
    const text = this.#tokenizer.decode!(this.#ids);
    return text.length > this.#text.length && !text.endsWith('\ufffd') ? this.#take(text) : '';
  }

  /** Ends the stream and returns the rest of the text: U+FFFD for an incomplete character. */
  end(): string {
    return this.#tokenizer.bytesOf ? this.#decoder.decode() : this.#take(this.#tokenizer.decode!(this.#ids));
  }

  /** Returns the new end of `text`. Keeps only the ids of this end, because the next ids are decoded together with these. */
  #take(text: string): string {
    const rest = text.slice(this.#text.length);
    this.#ids = this.#ids.slice(this.#known);
    this.#known = this.#ids.length;
    this.#text = this.#tokenizer.decode!(this.#ids);
    return rest;
  }
}

/**
 * The text of token ids, by default GPT-2's. End of text has none.
 * @throws UsageError for an id outside the vocabulary
 * @example console.log(decode([15496, 995])); // "Hello world"
 */
export function decode(ids: Iterable<number>, tokenizer: Tokenizer = gpt2): string {
  checkArguments({ ids, tokenizer });
  const list = [...ids];
  const { vocabularySize: size } = tokenizer;
  for (const id of list) {
    if (Number.isInteger(id) && id >= 0 && id < size) continue;
    throw usageError`${shown(id)} is no token of the vocabulary of ${size}; give whole numbers from 0 to ${size - 1}`;
  }
  return textOf(list, tokenizer);
}

/** The text of a model's tokens. Ids outside the tokenizer's vocabulary have no text. */
export function textOf(ids: Iterable<number>, tokenizer: Tokenizer = gpt2): string {
  if (tokenizer.decode) return tokenizer.decode([...ids]);
  const decoder = new StreamDecoder(tokenizer);
  let text = '';
  for (const id of ids) text += decoder.push(id);
  return text + decoder.end();
}
