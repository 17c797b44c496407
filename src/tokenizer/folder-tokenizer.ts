// Reads the tokenizer of a Hugging Face folder: its tokenizer.json, or one made from GPT-2's older vocab.json and merges.txt. Adds
// the tokens of tokenizer_config.json, added_tokens.json and special_tokens_map.json, in the order of transformers (5.18).
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { Gpt2Error, quote } from '../base/errors.ts';
import { readTextFile } from '../base/files/regular-file.ts';
import { parseJson } from '../base/files/strict-text.ts';
import { tokenizerFiles } from './gpt2-files.ts';
import { addedIds, endOfTextOf, vocabularySchema } from './huggingface-tokenizer.ts';
import { builtInNamed, builtInTokenizers, type Tokenizer, tokenizerOf } from './tokenizer.ts';
import { hasVocabulary, largestFile, parseTokenizer, tokenizerFile } from './tokenizer-file.ts';

const flag = z.boolean().default(false);
const flags = { single_word: flag, lstrip: flag, rstrip: flag, special: flag, normalized: z.boolean().optional() };
const tokenSchema = z.preprocess(
  (value) => (typeof value === 'string' ? { content: value } : value),
  z.object({ content: z.string().min(1), ...flags }),
);
type Token = z.infer<typeof tokenSchema> & { readonly id?: number };

/** tokenizer_config.json and special_tokens_map.json: the fields that change ids. */
const settingsSchema = z.looseObject({
  tokenizer_class: z.string().nullish(),
  add_prefix_space: z.boolean().nullish(),
  do_lower_case: z.boolean().nullish(),
  split_special_tokens: z.literal(false, { error: 'only false can be read' }).nullish(),
  added_tokens_decoder: z.record(z.string().regex(/^\d+$/), tokenSchema).optional(),
  additional_special_tokens: z.array(tokenSchema).nullish(),
  eos_token: tokenSchema.nullish(),
  extra_special_tokens: z.union([z.array(tokenSchema), z.record(z.string(), tokenSchema)]).nullish(),
});
type Settings = z.infer<typeof settingsSchema>;
const configSchema = z.looseObject({
  vocab_size: z.int().optional(),
  eos_token_id: z.union([z.int(), z.array(z.int())]).nullish(),
});

const normalizerSchema = z.looseObject({
  type: z.string().optional(),
  lowercase: z.boolean().optional(),
  get normalizers() {
    return z.array(normalizerSchema).optional();
  },
});
const lowers = ({ type, lowercase, normalizers = [] }: z.infer<typeof normalizerSchema>): boolean =>
  type === 'Lowercase' || lowercase === true || normalizers.some(lowers);

const fileSchema = z.looseObject({
  normalizer: normalizerSchema.nullish(),
  model: z.looseObject({ vocab: vocabularySchema }),
  pre_tokenizer: z.looseObject({ add_prefix_space: z.boolean().optional() }).nullish(),
  added_tokens: z.array(z.looseObject({ id: z.int(), content: z.string() })).default([]),
});
type File = z.infer<typeof fileSchema>;
type Vocabulary = File['model']['vocab'];

/** Fields of tokenizer_config.json that name tokens, in the order in which transformers adds the tokens. */
const names = ['bos_token', 'eos_token', 'unk_token', 'sep_token', 'pad_token', 'cls_token', 'mask_token'];

type Parse = (text: string) => unknown;
/** Reads and checks a file of the folder; undefined if it does not exist. @throws Gpt2Error */
type ReadFile = <S extends z.ZodType>(name: string, schema: S, parse?: Parse) => z.infer<S> | undefined;
/** Throws the error that a folder's tokenizer or model cannot be read, for the reason `what`. */
export type Refuse = (what: string) => never;

const otherTokenizers = ['vocab.txt', 'spiece.model', 'tokenizer.model', 'sentencepiece.bpe.model'];

function orRefuse<R>(name: string, refuse: Refuse, work: () => R): R {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    return refuse(`its ${name} cannot be read: ${(cause as Error).message.replaceAll(/\s+/g, ' ')}`);
  }
}

/** Reads a file of a folder, and checks it against a schema; undefined if there is no such file. */
export const readerIn =
  (path: string, refuse: Refuse, most: number): ReadFile =>
  (name, schema, parse = parseJson) => {
    if (!existsSync(join(path, name))) return undefined;
    const { success, data, error } = schema.safeParse(
      orRefuse(name, refuse, () => parse(readTextFile(join(path, name), most))),
    );
    if (success) return data;
    const [{ path: field, message }] = error.issues as [z.core.$ZodIssue];
    return refuse(`${field.map(String).map(quote).join('.') || 'it'} of its ${name}: ${message}`);
  };

/**
 * Reads a folder's tokenizer; undefined if there is none. Added tokens without an embedding row, often a padding token after
 * GPT-2's tokens, are left out if a built-in tokenizer remains.
 * @param refuse throws the error for a tokenizer that cannot be read
 */
export function readFolderTokenizer(path: string, refuse: Refuse): Tokenizer | undefined {
  const read = readerIn(path, refuse, largestFile);
  const { vocab_size: rows, eos_token_id: end } = read('config.json', configSchema) ?? {};
  const endIds = [end ?? []].flat();
  const file = fileOfFolder(read, endIds, refuse);
  const other = otherTokenizers.find((name) => existsSync(join(path, name)));
  if (file === undefined && other)
    refuse(`its tokenizer is in ${other}, which cannot be read; save it as ${tokenizerFile}`);
  const parse = (content: string) => orRefuse('tokenizer', refuse, () => parseTokenizer(content, path));
  const found = file === undefined ? tokenizerOf({ vocabularySize: rows ?? 0 }) : parse(file);
  if (!found) return undefined;
  const { endOfText = 'unknown: name it as eos_token in its tokenizer_config.json' } = found;
  // An eos_token_id outside the vocabulary is ignored: models of smaller vocabularies keep transformers' default, 50256.
  const ends = endIds.filter((id) => id < found.vocabularySize);
  if (ends.length > 0 && !ends.some((id) => id === endOfText))
    refuse(
      file === undefined
        ? `it has no ${tokenizerFile}, and eos_token_id ${ends.join(', ')} of its config.json is not the end of text of ${found.name}`
        : `eos_token_id is ${ends.join(', ')} in its config.json, but its tokenizer's end of text is ${endOfText}`,
    );
  if (file === undefined) return undefined;
  const vocabularySize = rows ?? found.vocabularySize;
  if (found.vocabularySize <= vocabularySize) return found;
  const { added_tokens: added = [], ...rest } = JSON.parse(file) as { added_tokens?: { id: number }[] };
  const withRows = parse(JSON.stringify({ ...rest, added_tokens: added.filter(({ id }) => id < vocabularySize) }));
  if (withRows.file === undefined && withRows.vocabularySize <= vocabularySize) return withRows;
  return refuse(
    `its tokenizer has ${found.vocabularySize} ids, but vocab_size of its config.json is ${vocabularySize}`,
  );
}

/**
 * @param endIds eos_token_id of config.json, which is the end of text if no other file names an end of text
 * @returns the content of a tokenizer.json for the folder; undefined if the folder has no tokenizer @throws Gpt2Error
 */
function fileOfFolder(read: ReadFile, endIds: readonly number[], refuse: Refuse): string | undefined {
  const settings = read('tokenizer_config.json', settingsSchema) ?? {};
  const ends = [settings, read('special_tokens_map.json', settingsSchema)].flatMap(
    (each) => each?.eos_token?.content ?? [],
  );
  if (new Set(ends).size > 1)
    refuse(
      `eos_token is ${quote(ends[0]!)} in its tokenizer_config.json, ${quote(ends[1]!)} in its special_tokens_map.json`,
    );
  const stored = read('tokenizer.json', z.string(), String);
  const file = read('tokenizer.json', fileSchema) ?? fileOfVocabulary(read, settings, refuse);
  if (!file) return undefined;
  const { add_prefix_space: prefix } = settings;
  if (typeof prefix === 'boolean' && file.pre_tokenizer?.add_prefix_space === !prefix) {
    refuse(`add_prefix_space is ${prefix} in its tokenizer_config.json, ${!prefix} in its tokenizer.json`);
  }
  const lower = settings.do_lower_case ?? undefined;
  if (lower !== undefined && lowers(file.normalizer ?? {}) !== lower)
    refuse(`do_lower_case is ${lower} in its tokenizer_config.json, ${!lower} in its tokenizer.json`);
  const added: Pick<Token, 'id' | 'content'>[] = [...file.added_tokens];
  for (const token of namedTokens(read, settings)) {
    if (added.every(({ content }) => content !== token.content)) added.push({ normalized: !token.special, ...token });
  }
  const named =
    endOfTextOf(added) === undefined ? added.find(({ id }) => endIds.some((each) => each === id)) : undefined;
  const [end = named?.content] = ends;
  const isOther = end !== undefined && endOfTextOf(added) !== end;
  if (stored !== undefined && added.length === file.added_tokens.length && !isOther) return stored;
  const ids = addedIds(file.model.vocab, added);
  const mark = (token: object, isEnd: boolean) =>
    isEnd ? { ...token, special: true, ends_text: true } : { ...token, ends_text: undefined };
  const tokens = isOther ? added.map((token) => mark(token, token.content === end)) : added;
  return JSON.stringify({ ...file, added_tokens: tokens.map((token, index) => ({ id: ids[index], ...token })) });
}

/** Makes a tokenizer.json from vocab.json and merges.txt. Sets missing bos, eos and unk tokens of `settings` to <|endoftext|>. */
function fileOfVocabulary(read: ReadFile, settings: Settings, refuse: Refuse): File | undefined {
  const { tokenizer_class: type, add_prefix_space: prefix } = settings;
  if (type && !/^GPT2Tokenizer(Fast)?$/.test(type))
    refuse(`it has a ${type} without a tokenizer.json; save it with one`);
  const vocab = read('vocab.json', z.record(z.string(), z.int().nonnegative()));
  if (!vocab) return undefined;
  const builtIn = builtInTokenizers.find((tokenizer) => hasVocabulary(tokenizer, vocab));
  const lines = (text: string) => text.match(/^(?!#version).+$/gm) ?? [];
  const merges = read('merges.txt', z.array(z.string()), lines) ?? (builtIn && [...tokenizerFiles(builtIn).merges]);
  if (!merges) refuse("its vocab.json is not GPT-2's vocabulary, and it has neither merges.txt nor tokenizer.json");
  for (const name of names.slice(0, 3)) if (settings[name] === undefined) settings[name] = '<|endoftext|>';
  return byteLevelFile(vocab, merges!, [], prefix ?? false);
}

/** The content of a tokenizer's tokenizer.json; generated for a built-in tokenizer, which has no file. */
export function fileOf({ name, file }: Tokenizer): string {
  const builtIn = builtInNamed(name);
  if (file !== undefined || !builtIn) return file!;
  const { tokens, merges } = tokenizerFiles(builtIn);
  const content = tokens.at(-1)!;
  const end = { ...tokenSchema.parse({ content, special: true, normalized: false }), id: builtIn.endOfText, content };
  return JSON.stringify(byteLevelFile(Object.fromEntries(tokens.map((token, id) => [token, id])), [...merges], [end]));
}

/** A tokenizer.json of byte-level BPE with GPT-2's pattern. */
function byteLevelFile(vocab: Vocabulary, merges: string[], added: File['added_tokens'], prefix = false): File {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: prefix, trim_offsets: true, use_regex: true };
  const parts = { continuing_subword_prefix: '', end_of_word_suffix: '' };
  return {
    ...{ version: '1.0', truncation: null, padding: null, added_tokens: added, normalizer: null },
    pre_tokenizer: byteLevel,
    post_processor: { ...byteLevel, trim_offsets: false },
    decoder: byteLevel,
    model: { type: 'BPE', dropout: null, unk_token: null, ...parts, fuse_unk: false, vocab, merges },
  };
}

/** Tokens that files other than tokenizer.json name: first tokens with ids, by id, then special tokens in transformers' order. */
function namedTokens(read: ReadFile, settings: Settings): Token[] {
  const { added_tokens_decoder: numbered } = settings;
  // transformers reads special_tokens_map.json and added_tokens.json only if tokenizer_config.json has no tokens with ids.
  const all = numbered ? settings : { ...settings, ...read('special_tokens_map.json', settingsSchema) };
  const older = numbered ? {} : (read('added_tokens.json', z.record(z.string().min(1), z.int().nonnegative())) ?? {});
  const others = Object.keys(all).filter((name) => name.endsWith('_token') && !names.includes(name));
  const special = [
    ...[...names, ...others].map((name) => tokenSchema.safeParse(all[name]).data ?? []),
    ...[all.additional_special_tokens, all.extra_special_tokens].map((tokens) => Object.values(tokens ?? {})),
  ].flat();
  const withIds = [
    ...Object.entries(numbered ?? {}).map(([id, token]) => ({ ...token, id: Number(id) })),
    ...Object.entries(older).map(([content, id]) => ({ ...tokenSchema.parse(content), id })),
  ].map((token) => ({ ...token, special: token.special || special.some(({ content }) => content === token.content) }));
  return [...withIds.sort((a, b) => a.id - b.id), ...special.map((token) => ({ ...token, special: true }))];
}
