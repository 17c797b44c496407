// Reads tokenizer.json, the file of the Hugging Face tokenizers library. It lies next to shards and weights whose tokenizer is not
// built in.
import { isDeepStrictEqual } from 'node:util';
import { Gpt2Error } from '../errors.ts';
import { readTextFile } from '../files/regular-file.ts';
import { characterTokenizerOf } from './character-tokenizer.ts';
import type { Tokenizer } from './tokenizer.ts';

export const tokenizerFile = 'tokenizer.json';
/** A vocabulary of 65,536 tokens and its merges take a few MB. */
const largestFile = 64 << 20;
/** Shards hold ids as uint16. */
export const mostIds = 65536;

/**
 * Reads the tokenizer of a tokenizer.json.
 * @throws Gpt2Error if it cannot be read, or is of a kind that this program does not know
 * @example const tokenizer = readTokenizer('data/tinyshakespeare-char/tokenizer.json');
 */
export function readTokenizer(path: string): Tokenizer {
  try {
    return parseTokenizer(readTextFile(path, largestFile));
  } catch (cause) {
    throw new Gpt2Error(`the tokenizer ${path} cannot be used: ${(cause as Error).message}; name another file`, {
      cause,
    });
  }
}

/** The tokenizer of a file's content. @throws Error saying what is wrong */
export function parseTokenizer(file: string): Tokenizer {
  const parsed: unknown = JSON.parse(file);
  if (typeof parsed !== 'object' || parsed === null) throw new Error('it is no JSON object');
  const tokenizer = characterTokenizerOf(parsed);
  if (!tokenizer) throw new Error('it is not a tokenizer of characters');
  if (tokenizer.vocabularySize <= mostIds) return tokenizer;
  throw new Error(`it has ${tokenizer.vocabularySize} ids, more than the ${mostIds} of a token file`);
}

/** Whether two tokenizers give the same ids; programs write the same file with other spaces and in another order. */
export const isSameTokenizer = (a: Tokenizer, b: Tokenizer): boolean =>
  a.name === b.name &&
  (a.file === b.file || isDeepStrictEqual(JSON.parse(a.file ?? 'null'), JSON.parse(b.file ?? 'null')));
