// Tokenizers of tokenizer.json files, through `tokenizers`, the Hugging Face library itself, an optional package. The library's
// encoding is asynchronous, so a thread (huggingface-thread.ts) runs it while the caller waits.
import { createRequire } from 'node:module';
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { Decoder, Tokenizer as Library } from 'tokenizers';
import { z } from 'zod';
import { Gpt2Error } from '../errors.ts';
import { startThread } from '../native/start-thread.ts';
import { byteOf } from './gpt2-files.ts';
import type { Tokenizer } from './tokenizer.ts';

export const huggingFaceName = 'huggingface';

/** Contents that end a document, in the order of preference. tokenizer.json does not say which of its special tokens does. */
const endsOfText = ['<|endoftext|>', '<|end_of_text|>', '</s>', '<eos>', '<|eos|>', '[EOS]', '[SEP]'];

/** Far more than fit in a token file, of which a message can say so. */
const id = z
  .int()
  .nonnegative()
  .max(1 << 22);
export const vocabularySchema = z.union([z.record(z.string(), id), z.array(z.tuple([z.string(), z.number()]))]);
type Vocabulary = z.infer<typeof vocabularySchema>;
const schema = z.object({
  model: z.object({
    vocab: vocabularySchema,
    merges: z.array(z.union([z.string(), z.array(z.string())])).optional(),
  }),
  added_tokens: z.array(z.object({ id, content: z.string(), special: z.boolean() })).default([]),
  decoder: z.looseObject({ type: z.string() }).nullish(),
});

/** The tokenizer of a file's content. @throws Error saying what is wrong */
export function huggingFaceTokenizer(parsed: object, file: string): Tokenizer {
  const result = schema.safeParse(parsed);
  if (!result.success) {
    const [{ path, message }] = result.error.issues as [z.core.$ZodIssue];
    throw new Error(`${path.join('.') || 'it'}: ${message}`);
  }
  const { model, added_tokens: added, decoder } = result.data;
  const tokens: string[] = [];
  for (const [token, index] of entriesOf(model.vocab)) tokens[index] = token;
  const ids = addedIds(model.vocab, added);
  for (const [index, { id, content }] of added.entries()) {
    if (id !== ids[index])
      throw new Error(`its added token ${JSON.stringify(content)} has the id ${id}, not ${ids[index]}`);
    tokens[id] = content;
  }
  const special = new Set(added.filter((token) => token.special).map((token) => token.id));
  const plain = new Set(added.filter(({ content }) => !isOfBytes(content, model)).map((token) => token.id));
  const endOfText = endsOfText.map((content) => tokens.indexOf(content)).find((id) => special.has(id));

  const texts = (ids: readonly number[]) => ids.flatMap((id) => (special.has(id) ? [] : (tokens[id] ?? [])));
  let library: Decoder | null | undefined;
  let encoder: Encoder | undefined;
  return {
    name: huggingFaceName,
    vocabularySize: tokens.length,
    endOfText,
    start: endOfText ?? Math.max(0, tokens.indexOf('Ċ'), tokens.indexOf('\n')),
    file,
    append(bytes, start, end, into) {
      encoder ??= new Encoder(file);
      into.append(encoder.encode(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8')));
    },
    ...(decoder?.type === 'ByteLevel'
      ? { bytesOf: (id) => Buffer.concat(texts([id]).map(plain.has(id) ? (text) => Buffer.from(text) : bytesOfToken)) }
      : {
          decode(ids) {
            library ??= open(file).getDecoder();
            return library ? library.decode(texts(ids)) : texts(ids).join(' ');
          },
        }),
  };
}

/** The tokens of a model with their ids. */
const entriesOf = (vocab: Vocabulary): (readonly [string, number])[] =>
  Array.isArray(vocab) ? vocab.map(([token], index) => [token, index]) : Object.entries(vocab);

/** The ids that the library gives added tokens, whatever the file says: those of the vocabulary, else the next behind it. */
export function addedIds(vocab: Vocabulary, added: readonly { readonly content: string }[]): number[] {
  const ids = new Map(entriesOf(vocab));
  let next = ids.size;
  return added.map(({ content }) => {
    const id = ids.get(content) ?? next;
    ids.set(content, id);
    next = Math.max(next, id + 1);
    return id;
  });
}

/** Whether an added token is also one that merges make of bytes; the others are plain text, which the library decodes as if it were bytes. */
function isOfBytes(content: string, { vocab, merges }: z.infer<typeof schema>['model']): boolean {
  if (!/\P{ASCII}/u.test(content) || Array.isArray(vocab) || !Object.hasOwn(vocab, content)) return false;
  return content.length === 1 || !merges || merges.some((pair) => [pair].flat().join('').replace(' ', '') === content);
}

/** A token of bytes is written with a character for each byte; others are plain text. */
function bytesOfToken(token: string): Uint8Array {
  const bytes = Array.from(token, (character) => byteOf.get(character));
  return bytes.includes(undefined) ? Buffer.from(token) : Uint8Array.from(bytes as number[]);
}

/** The library's tokenizer. @throws Gpt2Error if the package is not installed, or does not know the file */
export function open(file: string): Library {
  let library: typeof import('tokenizers');
  try {
    library = createRequire(import.meta.url)('tokenizers');
  } catch (cause) {
    throw new Gpt2Error('a tokenizer.json needs a package that is not installed: npm install tokenizers', { cause });
  }
  try {
    return library.Tokenizer.fromString(file);
  } catch (cause) {
    throw new Gpt2Error(
      `the package tokenizers cannot read this tokenizer.json: ${(cause as Error).message}; update it, or give another file`,
      { cause },
    );
  }
}

/** What huggingface-thread.ts receives. */
export interface EncoderTask {
  readonly file: string;
  /** Counts the answers. */
  readonly answered: Int32Array;
  readonly port: MessagePort;
}

export interface EncoderAnswer {
  readonly ids?: Uint32Array;
  readonly error?: string;
}

/** Encodes on a thread and waits for each answer. */
class Encoder {
  readonly #answered = new Int32Array(new SharedArrayBuffer(4));
  readonly #port: MessagePort;

  constructor(file: string) {
    // A thread could only say later that it cannot.
    open(file);
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const workerData: EncoderTask = { file, answered: this.#answered, port: port2 };
    startThread('./huggingface-thread', import.meta.url, { workerData, transferList: [port2] }).unref();
    port1.unref();
  }

  encode(text: string): Uint32Array {
    const before = this.#answered[0]!;
    this.#port.postMessage(text);
    Atomics.wait(this.#answered, 0, before);
    const { ids, error } = receiveMessageOnPort(this.#port)!.message as EncoderAnswer;
    if (ids) return ids;
    throw new Gpt2Error(`the tokenizer has no ids for a text: ${error}; leave it out, or take another tokenizer`);
  }
}
