// Writes GGUF version 3 as llama.cpp and similar programs read GPT-2: key-value pairs, names and offsets of tensors, their
// values. Matrices except wpe have the requested type, all else is fp32; token_embd is also the head.
import { gpt2Error } from '../../base/errors.ts';
import { writeDurably } from '../../data/shards/shard.ts';
import { presetName } from '../../model/config.ts';
import { type Parameter, parameterCount, parameterTable, realCount } from '../../model/parameters.ts';
import { encodeWeights, type WeightType, weightTypes } from '../files/weight-types.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';
import type { ModelFormat, StoredModel } from './stored-model.ts';

const alignment = 32;

const names: Readonly<Record<string, string>> = {
  wte: 'token_embd.weight',
  wpe: 'position_embd.weight',
  lnfw: 'output_norm.weight',
  lnfb: 'output_norm.bias',
  ln1w: 'attn_norm.weight',
  ln1b: 'attn_norm.bias',
  qkvw: 'attn_qkv.weight',
  qkvb: 'attn_qkv.bias',
  attprojw: 'attn_output.weight',
  attprojb: 'attn_output.bias',
  ln2w: 'ffn_norm.weight',
  ln2b: 'ffn_norm.bias',
  fcw: 'ffn_up.weight',
  fcb: 'ffn_up.bias',
  fcprojw: 'ffn_down.weight',
  fcprojb: 'ffn_down.bias',
};

export const gguf: ModelFormat = {
  description: 'a GGUF file for llama.cpp and its relatives',
  recognises: (_, head) => head?.startsWith('GGUF') === true,
  open(path, others) {
    throw gpt2Error`${path} is a GGUF file, which cannot be read; name ${others}`;
  },
  write: writeGguf,
};

/** Writes weights, and their tokenizer if it is known. @throws Gpt2Error if GGUF cannot hold them, or a write fails */
function writeGguf(path: string, weights: StoredModel, type: WeightType): void {
  const { model: config } = weights;
  const tokenizer = ggufTokenizer(config, weights.tokenizer);
  const parameters = parameterTable(config);
  // Position embeddings are added, not multiplied: llama.cpp's converter also keeps them in fp32.
  const typeOf = ({ kind, name }: Parameter): WeightType => (kind === 'matrix' && name !== 'wpe' ? type : 'fp32');
  const bytesIn = (parameter: Parameter) => realCount(parameter) * weightTypes[typeOf(parameter)].bytes;

  const pairs = [
    pair('general.architecture', 'string', text('gpt2')),
    pair('general.name', 'string', text(`gpt2.ts ${presetName(config) ?? ''}`.trim())),
    pair('general.parameter_count', 'uint64', uint64(parameterCount(config))),
    pair('general.file_type', 'uint32', uint32(weightTypes[type].ggufFile)),
    pair('gpt2.context_length', 'uint32', uint32(config.context)),
    pair('gpt2.embedding_length', 'uint32', uint32(config.channels)),
    pair('gpt2.feed_forward_length', 'uint32', uint32(4 * config.channels)),
    pair('gpt2.block_count', 'uint32', uint32(config.layers)),
    pair('gpt2.attention.head_count', 'uint32', uint32(config.heads)),
    pair('gpt2.attention.layer_norm_epsilon', 'float32', Buffer.from(Float32Array.of(1e-5).buffer)),
    ...(tokenizer ? tokenizerPairs(tokenizer) : []),
  ];
  let offset = 0;
  const places = parameters.map((parameter) => {
    const place = offset;
    offset += padded(bytesIn(parameter));
    return place;
  });
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    uint32(3),
    uint64(parameters.length),
    uint64(pairs.length),
    ...pairs,
    ...parameters.map((parameter, index) => {
      // GGUF lists the innermost dimension first.
      const dimensions = [parameter.rows, ...parameter.shape.slice(1)].reverse();
      return Buffer.concat([
        text(nameOf(parameter)),
        uint32(dimensions.length),
        ...dimensions.map(uint64),
        uint32(weightTypes[typeOf(parameter)].ggufTensor),
        uint64(places[index]!),
      ]);
    }),
  ]);
  const align = (bytes: Uint8Array): Uint8Array => Buffer.concat([bytes], padded(bytes.length));
  function* parts(): Generator<Uint8Array> {
    yield align(head);
    for (const parameter of parameters) yield align(encodeWeights(weights.read(parameter), typeOf(parameter)));
  }
  writeDurably(path, parts());
}

const padded = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

function nameOf({ name }: Parameter): string {
  const [, layer, short] = /^(?:h\.(\d+)\.)?(\w+)$/.exec(name)!;
  return layer === undefined ? names[short!]! : `blk.${layer}.${names[short!]}`;
}

function tokenizerPairs({ tokens, types, merges, endOfText }: NonNullable<ReturnType<typeof ggufTokenizer>>): Buffer[] {
  return [
    pair('tokenizer.ggml.model', 'string', text('gpt2')),
    pair('tokenizer.ggml.pre', 'string', text('gpt-2')),
    pair('tokenizer.ggml.tokens', 'array', ...arrayOf('string', tokens.map(text))),
    pair('tokenizer.ggml.token_type', 'array', ...arrayOf('int32', Array.from(types, uint32))),
    pair('tokenizer.ggml.merges', 'array', ...arrayOf('string', merges.map(text))),
    ...['bos', 'eos', 'unknown'].map((name) => pair(`tokenizer.ggml.${name}_token_id`, 'uint32', uint32(endOfText))),
  ];
}

const valueTypes = { uint32: 4, int32: 5, float32: 6, string: 8, array: 9, uint64: 10 } as const;

const pair = (key: string, type: keyof typeof valueTypes, ...value: Buffer[]): Buffer =>
  Buffer.concat([text(key), uint32(valueTypes[type]), ...value]);

const arrayOf = (type: keyof typeof valueTypes, items: readonly Buffer[]): Buffer[] => [
  uint32(valueTypes[type]),
  uint64(items.length),
  ...items,
];

const uint32 = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer);
const uint64 = (value: number): Buffer => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([uint64(bytes.length), bytes]);
}
