// Reads and writes GPT-2 in the format of transformers: a folder with config.json and model.safetensors, tensors with the names
// of openai-community/gpt2, optionally prefixed by "transformer." and torch.compile's "_orig_mod.". Reads fp32, fp16 and bf16;
// rejects models that this program would compute differently. src/tokenizer/folder-tokenizer.ts reads the tokenizer.
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { Gpt2Error, gpt2Error, quote } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';
import { architectureOf, otherThanGpt2 } from '../../model/architecture.ts';
import { checkConfig, type ModelConfig } from '../../model/config.ts';
import { type Parameter, parameterTable } from '../../model/parameters.ts';
import { fileOf, type Refuse, readerIn, readFolderTokenizer } from '../../tokenizer/folder-tokenizer.ts';
import { tokenizerOf } from '../../tokenizer/tokenizer.ts';
import { mostIds, tokenizerFile } from '../../tokenizer/tokenizer-file.ts';
import { fromStored, storedShape } from '../files/layout.ts';
import { manifestFile, optimizerFile, weightsFile } from '../files/names.ts';
import { openSafetensors, type SafetensorsFile, writeTensors } from '../files/safetensors.ts';
import { readerOf } from '../files/stored-file.ts';
import { type WeightType, weightTypes } from '../files/weight-types.ts';
import type { ModelFormat, StoredModel } from './stored-model.ts';

const configFile = 'config.json';
/** The model_type of an exported model with other parts than GPT-2's; this program does not read such a folder. */
const modernType = 'gpt2_ts';
const largestConfigBytes = 1 << 20;

/** transformers' other names for sizes. A configuration has one of the two names, or both with the same value. */
const otherNames = [
  ['num_hidden_layers', 'n_layer'],
  ['hidden_size', 'n_embd'],
  ['num_attention_heads', 'n_head'],
  ['max_position_embeddings', 'n_positions'],
] as const;
const withSizes = (config: unknown): object => {
  const fields = config as Readonly<Record<string, unknown>> | null;
  return { ...Object.fromEntries(otherNames.map(([other, name]) => [name, fields?.[other]])), ...fields };
};

const noSize = ({ input }: { input?: unknown }) =>
  input === undefined ? 'it is missing' : `it is ${JSON.stringify(input)}, not a whole number of at least 1`;
const size = z.int({ error: noSize }).positive({ error: noSize });
const noUntiedHead =
  'an untied head cannot be read, with --head untied either: tie it to the embedding and train again';
const configFields = z.looseObject({
  model_type: z.literal('gpt2', {
    error: ({ input }) =>
      `it is ${JSON.stringify(input)}, not "gpt2"${input === modernType ? '; name the run instead' : ''}`,
  }),
  ...{ n_layer: size, n_embd: size, n_head: size, n_positions: size },
  vocab_size: size.max(mostIds, { error: ({ input }) => `it is ${input}, over the ${mostIds} ids of a token file` }),
  tie_word_embeddings: z.literal(true, noUntiedHead).optional(),
});
type Config = z.infer<typeof configFields>;
const configSchema = z.preprocess(
  withSizes,
  configFields.refine(({ n_embd, n_head }) => n_embd % n_head === 0, {
    path: ['n_head'],
    error: ({ input }) => `it is ${(input as Config).n_head}, which does not divide n_embd ${(input as Config).n_embd}`,
  }),
);

/** Further fields that change a GPT-2's logits in transformers 5.18, with the values that this program supports; no others do. */
const valuesOf = (config: Config): Readonly<Record<string, readonly unknown[]>> => ({
  activation_function: ['gelu_new', 'gelu_pytorch_tanh'],
  layer_norm_epsilon: [1e-5],
  n_inner: [null, 4 * config.n_embd],
  scale_attn_weights: [true],
  scale_attn_by_inverse_layer_idx: [false],
  is_causal: [true],
  ...Object.fromEntries(otherNames.map(([other, name]) => [other, [config[name]]])),
});

/** Fields of other models (code stored with the weights, other weights, other attention): in a GPT-2, they are missing or empty. */
const foreign = [
  ...['auto_map', 'transformers_weights', 'quantization_config', 'fusion_config', 'per_layer_config', 'pruned_heads'],
  ...['sliding_window', 'attention_chunk_size', 'layer_types', 'rope_parameters', 'rope_scaling', 'rope_theta'],
];
const isEmpty = (value: unknown): boolean => !value || (typeof value === 'object' && Object.keys(value).length === 0);

/** Advice for weights in several files: transformers writes several from 50 GB on, older versions from 5 GB. */
export const writesOneFile = "transformers' save_pretrained(FOLDER, max_shard_size='100GB')";
/** Files with weights in formats that are not read here. */
const otherWeights = [`${weightsFile}.index.json`, 'pytorch_model.bin'];
/** The file of an adapter (such as LoRA), which transformers would add to the weights. */
export const adapterFile = 'adapter_config.json';

/** Whether a folder has the format of transformers, complete or not; false for checkpoints and runs of this program. */
function isModelFolder(path: string): boolean {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return false;
  const has = (name: string) => existsSync(join(path, name));
  if (has(manifestFile)) return false;
  if (!has(configFile)) return has(weightsFile) && !has(optimizerFile);
  return [weightsFile, ...otherWeights].some(has) || !['log.jsonl', 'checkpoints'].some(has);
}

/** Returns a function that throws the error for the model `name`, with the reason why it cannot be read. */
const refusing =
  (name: string): Refuse =>
  (what) => {
    throw new Gpt2Error(`${name} is not a GPT-2 that can be read: ${what}`);
  };

/**
 * Reads the sizes and the tokenizer of the model in a folder, which may still lack the weights. Errors call the model `name`.
 * @throws Gpt2Error naming the file or field that cannot be used
 */
export function readModelFolder(path: string, name = path): Pick<StoredModel, 'model' | 'tokenizer'> {
  const refuse = refusing(name);
  const model = readConfig(path, refuse);
  if (existsSync(join(path, adapterFile)))
    refuse(`${adapterFile} describes an adapter; merge it into the weights (merge_and_unload), and remove the file`);
  return { model, tokenizer: readFolderTokenizer(path, refuse) };
}

/** Opens the model of a folder. @param head the first bytes of a file, which is refused; undefined for a folder */
function openModel(path: string, _others = '', head?: string): StoredModel {
  if (head?.startsWith('PK'))
    throw gpt2Error`${path} is a PyTorch file: save the model with transformers' save_pretrained, and name its folder`;
  if (head) throw gpt2Error`${path} is a safetensors file without a configuration: name its folder, ${dirname(path)}`;
  const refuse = refusing(path);
  const { model, tokenizer } = readModelFolder(path);
  if (!existsSync(join(path, weightsFile))) {
    const isElsewhere = otherWeights.some((name) => existsSync(join(path, name)));
    const what = isElsewhere ? `its weights are not in one ${weightsFile}` : `it has no ${weightsFile}`;
    return refuse(`${what}; save it as one with ${writesOneFile}`);
  }
  return readerOf(openSafetensors(join(path, weightsFile)), (file) => {
    const names = namesOf(file, refuse);
    checkHead(file, names, refuse);
    checkTensors(file, names, model, refuse);
    const read = (each: Parameter) => fromStored(each, file.read(names.get(each.huggingFaceName)!));
    return { model, tokenizer, read };
  });
}

function readConfig(path: string, refuse: Refuse): ModelConfig {
  const config =
    readerIn(path, refuse, largestConfigBytes)(configFile, configSchema) ?? refuse(`it has no ${configFile}`);
  const differences = [
    ...Object.entries(valuesOf(config)).flatMap(([name, values]) => {
      const { [name]: value = values[0] } = config;
      return values.includes(value)
        ? []
        : [`${name} ${quote(String(value))} instead of ${values.map(String).join(' or ')}`];
    }),
    ...foreign.filter((name) => !isEmpty(config[name])),
  ];
  if (differences.length > 0) return refuse(`its ${configFile} has ${differences.join(', ')}, unlike GPT-2`);
  const { n_layer: layers, n_embd: channels, n_head: heads, n_positions: context, vocab_size: vocabularySize } = config;
  return checkConfig({ layers, channels, heads, context, vocabularySize });
}

/** For each name of a GPT-2 tensor, the name in the file, which may have prefixes. */
function namesOf(file: SafetensorsFile, refuse: Refuse): Map<string, string> {
  const names = new Map<string, string>();
  for (const stored of file.names) {
    const name = stored.replaceAll(/(?<=^|\.)_orig_mod\./g, '').replace(/^transformer\./, '');
    if (names.has(name))
      return refuse(`${weightsFile} has ${quote(name)} twice, as ${quote(names.get(name)!)} and ${quote(stored)}`);
    names.set(name, stored);
  }
  return names;
}

/** Checks that a stored head equals the embedding. If only the head is stored, as by safetensors' save_model, it serves as both. */
function checkHead(file: SafetensorsFile, names: Map<string, string>, refuse: Refuse): void {
  const [head, embedding] = [names.get('lm_head.weight'), names.get('wte.weight')];
  if (head === undefined) return;
  names.delete('lm_head.weight');
  names.set('wte.weight', embedding ?? head);
  if (embedding === undefined) return;
  const bits = (name: string) => Buffer.from(file.read(name).buffer);
  if (file.shape(head).join() === file.shape(embedding).join() && bits(head).equals(bits(embedding))) return;
  refuse(`${head} of its ${weightsFile} is not ${embedding}: ${noUntiedHead}`);
}

/** Whether a tensor is a mask of older transformers: the causal mask, or the score of hidden positions (-1e4, in bf16 -9984). */
function isMask(file: SafetensorsFile, name: string, stored: string): boolean {
  const [, kind] = /^h\.\d+\.attn\.(bias|masked_bias)$/.exec(name) ?? [];
  if (kind === undefined) return false;
  const shape = file.shape(stored);
  const size = shape.at(-1)!;
  if (kind === 'masked_bias') return shape.every((count) => count === 1) && file.read(stored, true)[0]! <= -9984;
  const isSquare = shape.join() === [1, 1, size, size].join();
  return isSquare && file.read(stored, true).every((value, at) => value === Number(at % size <= Math.floor(at / size)));
}

function checkTensors(file: SafetensorsFile, names: Map<string, string>, model: ModelConfig, refuse: Refuse): void {
  // Layers are counted before the parameter table is made, because a damaged configuration may claim any number of layers.
  const { size: layers } = new Set([...names.keys()].flatMap((name) => /^h\.\d+\./.exec(name) ?? []));
  if (model.layers !== layers)
    refuse(`n_layer of its ${configFile} is ${model.layers}, but ${weightsFile} has tensors of ${layers} layers`);
  const wanted = new Map(parameterTable(model).map((parameter: Parameter) => [parameter.huggingFaceName, parameter]));
  for (const [name, parameter] of wanted) {
    const stored = names.get(name) ?? refuse(`${weightsFile} lacks ${name}`);
    const [shape, expected] = [file.shape(stored), storedShape(parameter)];
    if (shape.join() !== expected.join()) refuse(`${stored} is [${shape}], not [${expected}]`);
  }
  for (const [name, stored] of names) {
    if (!wanted.has(name) && !isMask(file, name, stored))
      refuse(
        `${weightsFile} has ${quote(stored)}, which is not part of GPT-2, nor its causal mask; save it as a GPT2LMHeadModel`,
      );
  }
}

/** The files of a tokenizer; a folder may have any of them. */
export const tokenizerFiles = [
  'vocab.json',
  'merges.txt',
  'special_tokens_map.json',
  'added_tokens.json',
  'tokenizer_config.json',
  'tokenizer.json',
] as const;
/** The code with which transformers computes a model that is not GPT-2. */
const codeFile = 'modeling_gpt2ts.py';
const folderFiles = ['config.json', 'generation_config.json', codeFile, ...tokenizerFiles, weightsFile] as const;
type FolderFile = (typeof folderFiles)[number];

export const huggingFace: ModelFormat = {
  named: 'a Hugging Face folder, OWNER/NAME of a GPT-2 on its hub',
  description: 'a folder for transformers: model.safetensors, config.json, tokenizer files',
  files: folderFiles,
  holdsParts: true,
  // A PyTorch file is a zip archive; a safetensors file begins with its header's length and JSON. An empty file's `head` is ''.
  recognises: (path, head) => (head === undefined ? isModelFolder(path) : /^(PK|.{4}\0{4}\{)/s.test(head)),
  open: openModel,
  write: writeFolder,
};

/** Writes a model's files into `folder`, a temporary folder that the caller renames. @throws the file system's error */
function writeFolder(folder: string, { model, tokenizer: ofModel, read }: StoredModel, type: WeightType): void {
  const write = (name: FolderFile, text: string) => writeFileSync(join(folder, name), text, { flush: true });
  const json = (name: FolderFile, value: unknown) => write(name, `${JSON.stringify(value, null, 2)}\n`);
  const tokenizer = ofModel ?? tokenizerOf(model);
  // Without these ids, readers would use GPT-2's ids.
  const { endOfText = null } = tokenizer ?? {};
  const ends = tokenizer ? { bos_token_id: endOfText, eos_token_id: endOfText } : {};
  const isGpt2 = Object.keys(otherThanGpt2(model)).length === 0;
  const config = isGpt2 ? configOf(model) : configWithCode(model);
  json('config.json', { ...config, torch_dtype: weightTypes[type].torch, ...ends });
  if (!isGpt2) write(codeFile, readFileSync(join(packageRoot, 'src/weights/formats', codeFile), 'utf8'));
  json('generation_config.json', { _from_model_config: true, ...ends });
  if (tokenizer) {
    const file = fileOf(tokenizer);
    const { added_tokens: added, model: parts } = JSON.parse(file) as TokenizerFile;
    const special = added.find(({ id }) => id === endOfText)?.content;
    const isBuiltIn = tokenizer.file === undefined;
    const named = special === undefined ? {} : { bos_token: special, eos_token: special };
    write(tokenizerFile, file);
    json('tokenizer_config.json', {
      // Otherwise transformers would decode " ." as ".".
      clean_up_tokenization_spaces: false,
      model_max_length: model.context,
      tokenizer_class: isBuiltIn ? 'GPT2Tokenizer' : 'PreTrainedTokenizerFast',
      ...(isBuiltIn ? { add_prefix_space: false, unk_token: special } : {}),
      ...named,
    });
    if (isBuiltIn) {
      write('vocab.json', JSON.stringify(parts.vocab));
      write('merges.txt', ['#version: 0.2', ...parts.merges, ''].join('\n'));
      json('special_tokens_map.json', { ...named, unk_token: special });
    }
  }
  writeTensors(join(folder, weightsFile), [{ prefix: '', parameters: parameterTable(model), read }], type);
}

type TokenizerFile = { added_tokens: { id: number; content: string }[]; model: { vocab: object; merges: string[] } };

function configOf({ layers, channels, heads, context, vocabularySize }: ModelConfig): object {
  return {
    architectures: ['GPT2LMHeadModel'],
    model_type: 'gpt2',
    activation_function: 'gelu_new',
    ...{ n_layer: layers, n_embd: channels, n_head: heads, n_positions: context, n_ctx: context, n_inner: null },
    vocab_size: vocabularySize,
    layer_norm_epsilon: 1e-5,
    initializer_range: 0.02,
    ...{ attn_pdrop: 0, embd_pdrop: 0, resid_pdrop: 0 },
    ...{ scale_attn_weights: true, tie_word_embeddings: true, use_cache: true },
  };
}

/** The configuration of a model that `codeFile` computes: sizes by the names of transformers, parts, and shapes of tensors. */
function configWithCode(model: ModelConfig): object {
  const { layers, channels, heads, context, vocabularySize, endOfText } = model;
  const tensors = parameterTable(model).map((parameter) => [parameter.huggingFaceName, storedShape(parameter)]);
  const code = codeFile.replace('.py', '');
  return {
    architectures: ['Gpt2TsForCausalLM'],
    model_type: modernType,
    auto_map: { AutoConfig: `${code}.Gpt2TsConfig`, AutoModelForCausalLM: `${code}.Gpt2TsForCausalLM` },
    ...{ num_hidden_layers: layers, hidden_size: channels, num_attention_heads: heads, vocab_size: vocabularySize },
    ...{ max_position_embeddings: context, tie_word_embeddings: false, use_cache: false },
    parts: { ...architectureOf(model), endOfText },
    tensors: Object.fromEntries(tensors),
  };
}
