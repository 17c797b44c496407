// Reads tokenizer.json, the file of the Hugging Face tokenizers library. It lies next to shards and weights whose tokenizer is not
// built in.
import { isDeepStrictEqual } from 'node:util';
import { Gpt2Error } from '../errors.ts';
import { readTextFile } from '../files/regular-file.ts';
import { characterTokenizerOf } from './character-tokenizer.ts';
import { tokenTexts } from './gpt2-files.ts';
import { huggingFaceTokenizer } from './huggingface-tokenizer.ts';
import { type BuiltInTokenizer, builtInTokenizers, type Tokenizer } from './tokenizer.ts';

export const tokenizerFile = 'tokenizer.json';
/** A vocabulary of 65,536 tokens and its merges take a few MB. */
export const largestFile = 64 << 20;
/** Shards hold ids as uint16. */
export const mostIds = 65536;

/**
 * Reads the tokenizer of a tokenizer.json.
 * @throws Gpt2Error if it cannot be read, or has more ids than a token file can hold
 * @example
 * const { folder } = await prepareDataset('own-source', { out: 'data/characters', tokenizer: 'char' });
 * const ids = encode('a', readTokenizer(`${folder}/tokenizer.json`));
 */
export function readTokenizer(path: string): Tokenizer {
  try {
    return parseTokenizer(readTextFile(path, largestFile), path);
  } catch (cause) {
    throw new Gpt2Error(`the tokenizer ${path} cannot be used: ${(cause as Error).message}; name another file`, {
      cause,
    });
  }
}

/** The tokenizer of a file's content, which came from `path`. @throws Error saying what is wrong */
export function parseTokenizer(file: string, path = tokenizerFile): Tokenizer {
  const parsed: unknown = JSON.parse(file);
  if (typeof parsed !== 'object' || parsed === null) throw new Error('it is no JSON object');
  const tokenizer = characterTokenizerOf(parsed) ?? builtInOf(parsed) ?? huggingFaceTokenizer(parsed, file, path);
  if (tokenizer.vocabularySize <= mostIds) return tokenizer;
  throw new Error(`it has ${tokenizer.vocabularySize} ids, more than the ${mostIds} of a token file`);
}

/** The built-in tokenizer whose tokenizer.json this is, such as that of openai-community/gpt2. */
function builtInOf(parsed: object): BuiltInTokenizer | undefined {
  const { model, normalizer, pre_tokenizer: words, added_tokens: added } = parsed as Readonly<Record<string, Partial>>;
  const size = Object.keys(model?.vocab ?? {}).length;
  const found = builtInTokenizers.find(({ vocabularySize }) => vocabularySize === size);
  if (!found || model?.type !== 'BPE' || normalizer || added?.length !== 1) return undefined;
  const isByteLevel = words?.type === 'ByteLevel' && words.add_prefix_space === false && words.use_regex !== false;
  return isByteLevel && hasVocabulary(found, model.vocab) ? found : undefined;
}

type Partial = Readonly<Record<string, unknown>> | null | undefined;

/** Whether a vocabulary, by token, has all ids of a built-in tokenizer. */
export const hasVocabulary = (tokenizer: BuiltInTokenizer, vocabulary: unknown): boolean =>
  typeof vocabulary === 'object' &&
  vocabulary !== null &&
  tokenTexts(tokenizer).every(
    (token, id) => Object.hasOwn(vocabulary, token) && (vocabulary as Record<string, unknown>)[token] === id,
  );

/** Whether two tokenizers give the same ids. Programs write a file again in another form, with other settings for batches. */
export const isSameTokenizer = (a: Tokenizer, b: Tokenizer): boolean =>
  a.name === b.name && (a.file === b.file || isDeepStrictEqual(essence(a), essence(b)));

/** The parts of a file that ids depend on. */
function essence({ file }: Tokenizer): object {
  const { model, normalizer, pre_tokenizer, added_tokens } = JSON.parse(file ?? '{}') as Readonly<
    Record<string, Partial>
  >;
  // "a b" in files of earlier versions of the library.
  const merges = (model?.merges as (string | string[])[] | undefined)?.map((pair) => [pair].flat().join(' '));
  return { normalizer, pre_tokenizer, added_tokens, model: { ...model, merges } };
}
