// A folder as transformers opens it: weights under their names, the configuration, and GPT-2's tokenizer where the model has
// its vocabulary. In fp32 the weights are the checkpoint's file as it is.
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FoundCheckpoint } from '../checkpoint/directory.ts';
import { weightsFile } from '../checkpoint/manifest.ts';
import { syncFolder as sync } from '../checkpoint/replace.ts';
import { gpt2VocabularySize, type ModelConfig } from '../model/config.ts';
import { gpt2TokenizerFiles } from '../tokenizer/gpt2-files.ts';
import { endOfText } from '../tokenizer/tokenizer.ts';

const tokenizerFiles = [
  'vocab.json',
  'merges.txt',
  'special_tokens_map.json',
  'tokenizer_config.json',
  'tokenizer.json',
] as const;
/** Every file that an exported folder may hold. */
export const huggingFaceFiles = ['config.json', 'generation_config.json', ...tokenizerFiles, weightsFile] as const;

/** Writes into a temporary folder, renamed later. @throws the error of the file system if it cannot be written */
export function writeHuggingFace(folder: string, { path, manifest }: FoundCheckpoint): void {
  const write = (name: (typeof huggingFaceFiles)[number], text: string) =>
    writeFileSync(join(folder, name), text, { flush: true });
  const json = (name: (typeof huggingFaceFiles)[number], value: unknown) =>
    write(name, `${JSON.stringify(value, null, 2)}\n`);
  const hasText = manifest.model.vocabularySize === gpt2VocabularySize;
  const ends = hasText ? { bos_token_id: endOfText, eos_token_id: endOfText } : {};
  json('config.json', configOf(manifest.model, ends));
  json('generation_config.json', { _from_model_config: true, ...ends });
  if (hasText) {
    const { tokens, merges } = gpt2TokenizerFiles();
    const vocabulary = Object.fromEntries(tokens.map((token, id) => [token, id]));
    const special = tokens[endOfText]!;
    write('vocab.json', JSON.stringify(vocabulary));
    write('merges.txt', `#version: 0.2\n${merges.join('\n')}\n`);
    json('special_tokens_map.json', { bos_token: special, eos_token: special, unk_token: special });
    json('tokenizer_config.json', {
      add_prefix_space: false,
      model_max_length: manifest.model.context,
      tokenizer_class: 'GPT2Tokenizer',
      ...{ bos_token: special, eos_token: special, unk_token: special },
    });
    write('tokenizer.json', JSON.stringify(fastTokenizer(vocabulary, merges, special)));
  }
  const weights = join(folder, weightsFile);
  copyFileSync(join(path, weightsFile), weights);
  sync(weights);
}

function configOf({ layers, channels, heads, context, vocabularySize }: ModelConfig, ends: object): object {
  return {
    architectures: ['GPT2LMHeadModel'],
    model_type: 'gpt2',
    activation_function: 'gelu_new',
    n_layer: layers,
    n_embd: channels,
    n_head: heads,
    n_positions: context,
    n_ctx: context,
    n_inner: null,
    vocab_size: vocabularySize,
    layer_norm_epsilon: 1e-5,
    initializer_range: 0.02,
    attn_pdrop: 0,
    embd_pdrop: 0,
    resid_pdrop: 0,
    scale_attn_weights: true,
    tie_word_embeddings: true,
    torch_dtype: 'float32',
    use_cache: true,
    ...ends,
  };
}

/** The tokenizers library's own file. */
function fastTokenizer(vocab: object, merges: readonly string[], special: string): object {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [{ id: endOfText, content: special, ...flags }],
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: { ...byteLevel, trim_offsets: false },
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      vocab,
      merges,
    },
  };
}
