// Tokenizers of tokenizer.json files. Their vocabularies are read here; the Hugging Face library encodes and decodes
// (huggingface-library.ts).
import * as z from 'zod';
import { lazily } from '../base/lazily.ts';
import { byteOf } from './gpt2-files.ts';
import { libraryOf } from './huggingface-library.ts';
import { huggingFaceName, type Tokenizer } from './tokenizer.ts';

/** Contents by which the token that ends a document is recognized, the preferred first, if the file marks no token as `ends_text`. */
const endsOfText = ['<|endoftext|>', '<|end_of_text|>', '</s>', '<eos>', '<|eos|>', '[EOS]', '[SEP]'];

/** An id. The limit is far above the 65,536 ids that a token file can hold: parseTokenizer refuses more ids with a better message. */
const id = z.int().nonnegative().max(4_194_304);
export const vocabularySchema = z.union([z.record(z.string(), id), z.array(z.tuple([z.string(), z.number()]))]);
const decoderSchema = z.looseObject({
  type: z.string(),
  pattern: z.looseObject({ String: z.string().optional() }).optional(),
  content: z.string().optional(),
  get decoders() {
    return z.array(decoderSchema).optional();
  },
});
const schema = z.object({
  model: z.object({
    vocab: vocabularySchema,
    merges: z.array(z.union([z.string(), z.array(z.string())])).optional(),
    unk_token: z.string().nullish(),
    unk_id: id.nullish(),
    dropout: z.literal(0, 'ids would be random').nullish(),
  }),
  added_tokens: z
    .array(z.object({ id, content: z.string(), special: z.boolean(), ends_text: z.boolean().optional() }))
    .default([]),
  decoder: decoderSchema.nullish(),
});

export type DecoderRecord = z.infer<typeof decoderSchema>;

/** The tokens of a tokenizer.json, as this program reads them. */
export type Vocabulary = ReturnType<typeof vocabularyOf>;

/** Reads the vocabulary of a parsed tokenizer.json. @throws Error naming the invalid field or token */
export function vocabularyOf(parsed: object) {
  const result = schema.safeParse(parsed);
  if (!result.success) {
    const [{ path, message }] = result.error.issues as [z.core.$ZodIssue];
    throw new Error(`${path.join('.') || 'it'}: ${message}`);
  }
  const { model, added_tokens: added, decoder } = result.data;
  const tokens: string[] = [];
  const put = (token: string, id: number) => {
    const other = tokens[id] ?? token;
    if (other !== token) throw new Error(`${JSON.stringify(other)} and ${JSON.stringify(token)} have the id ${id}`);
    tokens[id] = token;
  };
  for (const [token, id] of entriesOf(model.vocab)) put(token, id);
  const ids = addedIds(model.vocab, added);
  for (const [index, { id, content }] of added.entries()) {
    if (id !== ids[index])
      throw new Error(`its added token ${JSON.stringify(content)} has the id ${id}, not ${ids[index]}`);
    put(content, id);
  }
  const special = new Set(added.filter((token) => token.special).map((token) => token.id));
  const plain = new Set(added.filter(({ content }) => !isOfBytes(content, model)).map((token) => token.id));
  const endOfText = endOfTextOf(added);
  const unknown = model.unk_id ?? (model.unk_token == null ? -1 : tokens.indexOf(model.unk_token));
  const bytesOf = (id: number, evenSpecial = false): Uint8Array => {
    if (special.has(id) && !evenSpecial) return new Uint8Array();
    return plain.has(id) ? Buffer.from(tokens[id]!) : bytesOfToken(tokens[id] ?? '');
  };
  return {
    /** Contents of the tokens by id. */
    tokens,
    /** The id of the unknown token, for text that the vocabulary lacks. */
    unknown: unknown < 0 ? undefined : unknown,
    /** The id that ends a document. */
    endOfText: endOfText === undefined ? undefined : tokens.indexOf(endOfText),
    decoder,
    /** The bytes of a token; none for a special token, unless `evenSpecial`. Undefined if the bytes depend on neighbouring tokens. */
    bytesOf: decoder?.type === 'ByteLevel' ? bytesOf : undefined,
  };
}

/** The tokenizer of a tokenizer.json, parsed and as text. @param path for messages @throws as `vocabularyOf` */
export function huggingFaceTokenizer(parsed: object, file: string, path: string): Tokenizer {
  const { tokens, endOfText, bytesOf } = vocabularyOf(parsed);
  const library = lazily(() => libraryOf(file, path));
  return {
    name: huggingFaceName,
    vocabularySize: tokens.length,
    endOfText,
    start: endOfText ?? Math.max(0, tokens.indexOf('Ċ'), tokens.indexOf('\n')),
    file,
    append(bytes, start, end, into) {
      const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString();
      into.append(library().encode([text]).ids[0]!);
    },
    encodeAll: (texts) => library().encode(texts),
    ...(bytesOf ? { bytesOf: (id) => bytesOf(id) } : { decode: (ids) => library().decode(ids) }),
  };
}

type AddedToken = { readonly content: string; readonly special?: unknown; readonly ends_text?: unknown };

/** The content of the added token that ends a document. */
export const endOfTextOf = (added: readonly AddedToken[]): string | undefined =>
  added.find((token) => token.ends_text)?.content ??
  endsOfText.find((content) => added.some((token) => token.special && token.content === content));

/** The tokens of a tokenizer.json's vocabulary, each with its id. */
const entriesOf = (vocab: z.infer<typeof vocabularySchema>): (readonly [string, number])[] =>
  Array.isArray(vocab) ? vocab.map(([token], index) => [token, index]) : Object.entries(vocab);

/** The ids that the library assigns to added tokens, ignoring the file's ids: the id in the vocabulary, else the next free id. */
export function addedIds(vocab: z.infer<typeof vocabularySchema>, added: readonly AddedToken[]): number[] {
  const ids = new Map(entriesOf(vocab));
  let next = ids.size;
  return added.map(({ content }) => {
    const id = ids.get(content) ?? next;
    ids.set(content, id);
    next = Math.max(next, id + 1);
    return id;
  });
}

/** Whether merges can produce an added token: its characters then stand for bytes. Other added tokens are plain text. */
function isOfBytes(content: string, { vocab, merges }: z.infer<typeof schema>['model']): boolean {
  if (!/\P{ASCII}/u.test(content) || Array.isArray(vocab) || !Object.hasOwn(vocab, content)) return false;
  return content.length === 1 || !merges || merges.some((pair) => [pair].flat().join('').replace(' ', '') === content);
}

/** The bytes of a token whose content has one character for each byte; other contents are plain text. */
function bytesOfToken(token: string): Uint8Array {
  const bytes = Array.from(token, (character) => byteOf.get(character));
  return bytes.includes(undefined) ? Buffer.from(token) : Uint8Array.from(bytes as number[]);
}
