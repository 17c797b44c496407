// Reads tokenizer.json, the file of the Hugging Face tokenizers library. Shards and weights whose tokenizer is not built in have
// this file in their folder.
import { isDeepStrictEqual } from 'node:util';
import { checkArguments } from '../base/checks/given.ts';
import { explained } from '../base/errors.ts';
import { readTextFile } from '../base/files/regular-file.ts';
import { parseJson } from '../base/files/strict-text.ts';
import { characterTokenizerOf } from './character-tokenizer.ts';
import { tokenizerFiles, tokenTexts } from './gpt2-files.ts';
import { huggingFaceTokenizer } from './huggingface-tokenizer.ts';
import { type BuiltInTokenizer, builtInTokenizers, type Tokenizer } from './tokenizer.ts';

export const tokenizerFile = 'tokenizer.json';
/** The largest tokenizer.json that is read, in bytes: a vocabulary of 65,536 tokens and its merges take a few MB. */
export const largestFile = 64 << 20;
/** The most ids of a tokenizer, because shards hold ids as uint16. */
export const mostIds = 65536;

/**
 * Reads the tokenizer of a tokenizer.json.
 * @throws Gpt2Error if the file cannot be read, or has more ids than a token file can hold
 * @example
 * const { folder } = await prepareDataset('own-source', { out: 'data/characters', tokenizer: 'char' });
 * const ids = encode('a', readTokenizer(`${folder}/tokenizer.json`));
 */
export function readTokenizer(path: string): Tokenizer {
  checkArguments({ path });
  return explained(`the tokenizer ${path} cannot be used`, 'name another file', () =>
    parseTokenizer(readTextFile(path, largestFile), path),
  );
}

/** The tokenizer of a tokenizer.json. @param file the content @param path for messages @throws Error if it cannot be used */
export function parseTokenizer(file: string, path = tokenizerFile): Tokenizer {
  const parsed = parseJson(file);
  if (typeof parsed !== 'object' || parsed === null) throw new Error('it is no JSON object');
  const tokenizer = characterTokenizerOf(parsed) ?? builtInOf(parsed) ?? huggingFaceTokenizer(parsed, file, path);
  if (tokenizer.vocabularySize <= mostIds) return tokenizer;
  throw new Error(`it has ${tokenizer.vocabularySize} ids, more than the ${mostIds} of a token file`);
}

/** The built-in tokenizer that a tokenizer.json describes, such as the file of openai-community/gpt2. */
function builtInOf(parsed: object): BuiltInTokenizer | undefined {
  const { model, normalizer, pre_tokenizer: words, decoder, ...rest } = parsed as Readonly<Record<string, Fields>>;
  const [end, ...more] = Array.isArray(rest.added_tokens) ? (rest.added_tokens as Fields[]) : [];
  const size = Object.keys(model?.vocab ?? {}).length;
  const found = builtInTokenizers.find(({ vocabularySize }) => vocabularySize === size);
  const changes = ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix', 'ignore_merges'];
  if (!found || model?.type !== 'BPE' || normalizer || changes.some((name) => model[name])) return undefined;
  if (more.length > 0 || end?.id !== found.endOfText || ['single_word', 'lstrip', 'rstrip'].some((name) => end[name]))
    return undefined;
  const isByteLevel = words?.type === 'ByteLevel' && words.add_prefix_space === false && words.use_regex !== false;
  if (!isByteLevel || decoder?.type !== 'ByteLevel' || !hasVocabulary(found, model.vocab)) return undefined;
  const { tokens, merges } = tokenizerFiles(found);
  return end.content === tokens.at(-1) && isDeepStrictEqual(mergesOf(model), merges) ? found : undefined;
}

type Fields = Readonly<Record<string, unknown>> | null | undefined;

/** The merges of a model as "a b"; files of newer versions of Hugging Face's tokenizers have pairs, ["a", "b"]. */
const mergesOf = (model: Fields): string[] | undefined =>
  (model?.merges as (string | string[])[] | undefined)?.map((pair) => [pair].flat().join(' '));

/** Whether a vocabulary, a map from tokens to ids, has all tokens of a built-in tokenizer with the same ids. */
export const hasVocabulary = (tokenizer: BuiltInTokenizer, vocabulary: unknown): boolean =>
  typeof vocabulary === 'object' &&
  vocabulary !== null &&
  tokenTexts(tokenizer).every(
    (token, id) => Object.hasOwn(vocabulary, token) && (vocabulary as Record<string, unknown>)[token] === id,
  );

/** Whether two tokenizers give the same ids. Their files may differ in white space and in settings for batches. */
export const isSameTokenizer = (a: Tokenizer, b: Tokenizer): boolean =>
  a.name === b.name && (a.file === b.file || isDeepStrictEqual(essence(a), essence(b)));

/** The fields of a tokenizer.json on which ids depend. */
function essence({ file }: Tokenizer): object {
  const { model, normalizer, pre_tokenizer, added_tokens } = JSON.parse(file ?? '{}') as Readonly<
    Record<string, Fields>
  >;
  return { normalizer, pre_tokenizer, added_tokens, model: { ...model, merges: mergesOf(model) } };
}
