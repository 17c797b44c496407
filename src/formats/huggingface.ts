// Reads and writes GPT-2 in the format of transformers: a folder with config.json and model.safetensors, tensors with the names of
// openai-community/gpt2, optionally prefixed by "transformer.". It reads fp32, fp16 and bf16 and rejects models that this program
// would compute differently. It reads a tokenizer.json, and writes the model's tokenizer if it is known.
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { manifestFile, weightsFile } from '../checkpoint/manifest.ts';
import { writeTensors } from '../checkpoint/write.ts';
import { Gpt2Error } from '../errors.ts';
import { readTextFile } from '../files/regular-file.ts';
import { checkConfig, type ModelConfig } from '../model/config.ts';
import { type Parameter, parameterTable, realCount } from '../model/parameters.ts';
import { tokenizerFiles as filesOf } from '../tokenizer/gpt2-files.ts';
import { exactTokenizerOf, gpt2, type Tokenizer, tokenizerOf } from '../tokenizer/tokenizer.ts';
import { hasVocabulary, largestFile, parseTokenizer, tokenizerFile } from '../tokenizer/tokenizer-file.ts';
import { fromStored, storedShape } from './layout.ts';
import { openSafetensors, type SafetensorsFile } from './safetensors.ts';
import { quote } from './safetensors-header.ts';
import { readerOf } from './stored-file.ts';
import type { StoredModel } from './stored-model.ts';
import { type WeightType, weightTypes } from './weight-types.ts';

const configFile = 'config.json';
const largestConfigBytes = 1 << 20;

/** Fields that change how transformers computes, with its defaults. */
const configSchema = z.object({
  model_type: z.literal('gpt2', { error: ({ input }) => `it is ${JSON.stringify(input)}, not "gpt2"` }),
  n_layer: z.int().positive(),
  n_embd: z.int().positive(),
  n_head: z.int().positive(),
  n_positions: z.int().positive(),
  vocab_size: z.int().positive(),
  n_inner: z.int().positive().nullish(),
  activation_function: z.string().default('gelu_new'),
  layer_norm_epsilon: z.number().default(1e-5),
  scale_attn_weights: z.boolean().default(true),
  scale_attn_by_inverse_layer_idx: z.boolean().default(false),
  tie_word_embeddings: z.boolean().default(true),
});

/** Causal masks are not weights; a stored head equals the embedding. */
const isNoWeight = (name: string): boolean => /^h\.\d+\.attn\.(masked_)?bias$|^lm_head\.weight$/.test(name);

/** Files that hold weights in other ways than one that is read here. */
const otherWeights = [`${weightsFile}.index.json`, 'pytorch_model.bin'];

/** Whether a folder has the format of transformers, or its beginnings; false for checkpoints and runs of this program. */
export function isHuggingFaceModel(path: string): boolean {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return false;
  const has = (name: string) => existsSync(join(path, name));
  if (has(manifestFile) || !has(configFile)) return false;
  return [weightsFile, ...otherWeights].some(has) || !['log.jsonl', 'checkpoints'].some(has);
}

/** Refuses what a model has. */
type Refuse = (what: string) => never;
const refusing =
  (name: string): Refuse =>
  (what) => {
    throw new Gpt2Error(`${name} is not a GPT-2 that can be read: ${what}`);
  };

/**
 * Reads the sizes and the tokenizer of the model in a folder, whose weights may still be missing.
 * @param name of the model in errors
 * @throws Gpt2Error naming the file or field that cannot be used
 */
export function readModelFolder(path: string, name = path): Pick<StoredModel, 'model' | 'tokenizer'> {
  const refuse = refusing(name);
  const model = readConfig(path, refuse);
  return { model, tokenizer: readTokenizerOf(path, model, refuse) };
}

/** Opens a model. @throws Gpt2Error naming the file, field or tensor that cannot be used */
export function openHuggingFaceModel(path: string): StoredModel {
  const refuse = refusing(path);
  const { model, tokenizer } = readModelFolder(path);
  if (!existsSync(join(path, weightsFile))) {
    const isElsewhere = otherWeights.some((name) => existsSync(join(path, name)));
    const what = isElsewhere ? `its weights are not in one ${weightsFile}` : `it has no ${weightsFile}`;
    return refuse(`${what}; save it as one with transformers' save_pretrained`);
  }
  return readerOf(openSafetensors(join(path, weightsFile)), (file) => {
    const names = namesOf(file, refuse);
    checkTensors(file, names, model, refuse);
    return {
      model,
      tokenizer,
      read: (parameter) =>
        fromStored(parameter, file.read(names.get(parameter.huggingFaceName)!).subarray(0, realCount(parameter))),
    };
  });
}

function readJson<R>(
  { path, name, most }: { readonly path: string; readonly name: string; readonly most: number },
  refuse: Refuse,
  parse: (text: string) => R = JSON.parse,
): R {
  try {
    return parse(readTextFile(join(path, name), most));
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    return refuse(`its ${name} cannot be read: ${(cause as Error).message.replaceAll(/\s+/g, ' ')}`);
  }
}

/**
 * The tokenizer of the folder's tokenizer.json; undefined if it is built in, or there is none. With a vocabulary in another file
 * that is not that of our tokenizer, the ids have an unknown meaning.
 */
function readTokenizerOf(path: string, model: ModelConfig, refuse: Refuse): Tokenizer | undefined {
  const most = largestFile;
  const builtIn = tokenizerOf(model) ?? gpt2;
  if (existsSync(join(path, tokenizerFile))) {
    const found = readJson({ path, name: tokenizerFile, most }, refuse, (text) =>
      parseTokenizer(text, join(path, tokenizerFile)),
    );
    if (found.file === undefined) return undefined;
    if (found.vocabularySize <= model.vocabularySize) return found;
    // A token for padding is often added without a row in the embedding.
    const { model: tokens } = JSON.parse(found.file) as { model: { vocab: unknown } };
    if (hasVocabulary(builtIn, tokens.vocab)) return undefined;
    const rows = `vocab_size of its ${configFile} is ${model.vocabularySize}`;
    return refuse(`its ${tokenizerFile} has ${found.vocabularySize} ids, but ${rows}`);
  }
  if (!existsSync(join(path, 'vocab.json'))) return undefined;
  if (hasVocabulary(builtIn, readJson<unknown>({ path, name: 'vocab.json', most }, refuse))) return undefined;
  const wanted = builtIn === gpt2 ? "GPT-2's vocabulary" : `the vocabulary of ${builtIn.name}`;
  return refuse(`its vocab.json is not ${wanted}, and it has no ${tokenizerFile}`);
}

function readConfig(path: string, refuse: Refuse): ModelConfig {
  const parsed = readJson<unknown>({ path, name: configFile, most: largestConfigBytes }, refuse);
  const result = configSchema.safeParse(parsed);
  if (!result.success) {
    const [{ path: field, message }] = result.error.issues as [z.core.$ZodIssue];
    return refuse(`${field.join('.') || 'it'} of its ${configFile}: ${message}`);
  }
  const { n_layer: layers, n_embd: channels, n_head: heads, n_positions: context, ...rest } = result.data;
  const { activation_function: activation, n_inner: inner } = rest;
  const differences = [
    ...(['gelu_new', 'gelu_pytorch_tanh'].includes(activation) ? [] : [`activation_function ${quote(activation)}`]),
    ...(rest.layer_norm_epsilon === 1e-5 ? [] : [`layer_norm_epsilon ${rest.layer_norm_epsilon}`]),
    ...(inner === undefined || inner === null || inner === 4 * channels ? [] : [`n_inner ${inner}`]),
    ...(rest.scale_attn_weights ? [] : ['scale_attn_weights false']),
    ...(rest.scale_attn_by_inverse_layer_idx ? ['scale_attn_by_inverse_layer_idx true'] : []),
    ...(rest.tie_word_embeddings ? [] : ['tie_word_embeddings false']),
  ];
  if (differences.length > 0) return refuse(`its ${configFile} has ${differences.join(', ')}, unlike GPT-2`);
  try {
    return checkConfig({ layers, channels, heads, context, vocabularySize: rest.vocab_size });
  } catch (cause) {
    return refuse((cause as Error).message);
  }
}

/** The name in the file of each weight, by its GPT-2 name. */
function namesOf(file: SafetensorsFile, refuse: Refuse): Map<string, string> {
  const names = new Map<string, string>();
  for (const stored of file.names) {
    const name = stored.replace(/^transformer\./, '');
    if (names.has(name))
      return refuse(`${weightsFile} has ${quote(name)} twice, as ${quote(names.get(name)!)} and ${quote(stored)}`);
    if (!isNoWeight(name)) names.set(name, stored);
  }
  return names;
}

function checkTensors(
  file: SafetensorsFile,
  names: ReadonlyMap<string, string>,
  model: ModelConfig,
  refuse: Refuse,
): void {
  // Checked before the parameter table is made: a damaged file may claim any number of layers.
  if (model.layers > names.size) {
    refuse(`n_layer of its ${configFile} is ${model.layers}, but ${weightsFile} has ${names.size} tensors`);
  }
  const wanted = new Map(parameterTable(model).map((parameter: Parameter) => [parameter.huggingFaceName, parameter]));
  for (const [name, parameter] of wanted) {
    const stored = names.get(name) ?? refuse(`${weightsFile} lacks ${name}`);
    const [shape, expected] = [file.shape(stored), storedShape(parameter)];
    if (shape.join() !== expected.join()) refuse(`${stored} is [${shape}], not [${expected}]`);
  }
  const unknown = [...names.keys()].find((name) => !wanted.has(name));
  if (unknown !== undefined) refuse(`${weightsFile} has ${quote(unknown)}, which is not part of GPT-2`);
}

const tokenizerFiles = [
  'vocab.json',
  'merges.txt',
  'special_tokens_map.json',
  'tokenizer_config.json',
  'tokenizer.json',
] as const;
/** Every file that an exported folder may hold. */
export const huggingFaceFiles = ['config.json', 'generation_config.json', ...tokenizerFiles, weightsFile] as const;

/** Writes into a temporary folder, which is renamed later. @throws the file system's error */
export function writeHuggingFace(folder: string, { model, tokenizer: own, read }: StoredModel, type: WeightType): void {
  const write = (name: (typeof huggingFaceFiles)[number], text: string) =>
    writeFileSync(join(folder, name), text, { flush: true });
  const json = (name: (typeof huggingFaceFiles)[number], value: unknown) =>
    write(name, `${JSON.stringify(value, null, 2)}\n`);
  const builtIn = own ? undefined : exactTokenizerOf(model);
  // Left out, they would be GPT-2's.
  const { endOfText = null } = own ?? builtIn ?? {};
  const ends = own || builtIn ? { bos_token_id: endOfText, eos_token_id: endOfText } : {};
  json('config.json', configOf(model, { torch_dtype: weightTypes[type].torch, ...ends }));
  json('generation_config.json', { _from_model_config: true, ...ends });
  if (own) {
    write(tokenizerFile, own.file!);
    json('tokenizer_config.json', {
      clean_up_tokenization_spaces: false,
      model_max_length: model.context,
      tokenizer_class: 'PreTrainedTokenizerFast',
      ...(endOfText === null ? {} : { bos_token: contentOf(own, endOfText), eos_token: contentOf(own, endOfText) }),
    });
  }
  if (builtIn) {
    const { tokens, merges } = filesOf(builtIn);
    const vocabulary = Object.fromEntries(tokens.map((token, id) => [token, id]));
    const special = tokens.at(-1)!;
    write('vocab.json', JSON.stringify(vocabulary));
    write('merges.txt', ['#version: 0.2', ...merges, ''].join('\n'));
    json('special_tokens_map.json', { bos_token: special, eos_token: special, unk_token: special });
    json('tokenizer_config.json', {
      add_prefix_space: false,
      // Else " ." would be decoded as ".".
      clean_up_tokenization_spaces: false,
      model_max_length: model.context,
      tokenizer_class: 'GPT2Tokenizer',
      ...{ bos_token: special, eos_token: special, unk_token: special },
    });
    write(
      'tokenizer.json',
      JSON.stringify(fastTokenizer(vocabulary, merges, { id: builtIn.endOfText, content: special })),
    );
  }
  writeTensors(join(folder, weightsFile), [{ prefix: '', parameters: parameterTable(model), read }], type);
}

function contentOf({ file }: Tokenizer, special: number): string | undefined {
  const { added_tokens: added } = JSON.parse(file!) as { added_tokens: { id: number; content: string }[] };
  return added.find(({ id }) => id === special)?.content;
}

function configOf({ layers, channels, heads, context, vocabularySize }: ModelConfig, rest: object): object {
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
    use_cache: true,
    ...rest,
  };
}

/** tokenizer.json, for the tokenizers library. */
function fastTokenizer(vocab: object, merges: readonly string[], special: { id: number; content: string }): object {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [{ ...special, ...flags }],
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
