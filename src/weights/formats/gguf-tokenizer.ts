// Describes a tokenizer in GGUF's format: the text and type of each token, and the merges. Only byte-level BPE with GPT-2's pattern
// can be described, because llama.cpp knows other tokenizers only by the names of their models.
import * as z from 'zod';
import { gpt2Error } from '../../base/errors.ts';
import type { ModelConfig } from '../../model/config.ts';
import { fileOf } from '../../tokenizer/folder-tokenizer.ts';
import { type Tokenizer, tokenizerOf } from '../../tokenizer/tokenizer.ts';

/** Values of tokenizer.ggml.token_type. */
const types = { normal: 1, control: 3, userDefined: 4, unused: 5 };

/** The fields that must be GPT-2's; tokens and merges may differ. */
const schema = z.object({
  normalizer: z.null().optional(),
  pre_tokenizer: z.object({
    type: z.literal('ByteLevel'),
    add_prefix_space: z.literal(false),
    use_regex: z.literal(true).default(true),
  }),
  decoder: z.object({ type: z.literal('ByteLevel') }),
  added_tokens: z.array(z.looseObject({ id: z.int(), content: z.string(), special: z.boolean() })),
  model: z.object({
    type: z.literal('BPE'),
    vocab: z.record(z.string(), z.int()),
    merges: z.array(z.union([z.string(), z.tuple([z.string(), z.string()])])),
    continuing_subword_prefix: z.literal('').nullish(),
    end_of_word_suffix: z.literal('').nullish(),
    byte_fallback: z.literal(false).default(false),
    ignore_merges: z.literal(false).default(false),
  }),
});

/**
 * Tokens and types for each row of the embedding, and merges.
 * @param ofModel the tokenizer stored with the model; if undefined, a built-in one is chosen by the vocabulary's size, if one fits
 * @throws Gpt2Error if GGUF cannot hold the tokenizer
 */
export function ggufTokenizer(config: ModelConfig, ofModel: Tokenizer | undefined) {
  const tokenizer = ofModel ?? tokenizerOf(config);
  if (!tokenizer) return undefined;
  const [{ name, endOfText }, { vocabularySize }] = [tokenizer, config];
  const { success, data, error } = schema.safeParse(JSON.parse(fileOf(tokenizer)));
  // Without an end of text, readers would use GPT-2's id.
  if (!success || endOfText === undefined) {
    const why = error ? `its ${error.issues[0]!.path.join('.')} is unlike GPT-2's` : 'it has no end of text';
    throw gpt2Error`GGUF cannot hold the tokenizer of this model (${name}), ${why}: give --format hf, which can`;
  }
  for (const { content, ...flags } of data.added_tokens) {
    const flag = ['single_word', 'lstrip', 'rstrip'].find((each) => flags[each]);
    if (flag === undefined) continue;
    throw gpt2Error`GGUF cannot hold the token ${JSON.stringify(content)} of this model's tokenizer, which has ${flag}: give --format hf, which can`;
  }
  const tokens = Array.from({ length: vocabularySize }, (_, id) => `[PAD${id}]`);
  const typeOf = new Int32Array(vocabularySize).fill(types.unused);
  const put = (id: number, text: string, type: number) => {
    tokens[id] = text;
    typeOf[id] = type;
  };
  for (const [text, id] of Object.entries(data.model.vocab)) put(id, text, types.normal);
  for (const { id, content, special } of data.added_tokens) {
    put(id, content, special ? types.control : types.userDefined);
  }
  return { tokens, types: typeOf, merges: data.model.merges.map((pair) => [pair].flat().join(' ')), endOfText };
}
