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

  const pairs: Pair[] = [
    ['general.architecture', 'gpt2'],
    ['general.name', `gpt2.ts ${presetName(config) ?? ''}`.trim()],
    ['general.parameter_count', uint64(parameterCount(config))],
    ['general.file_type', uint32(weightTypes[type].ggufFile)],
    ['gpt2.context_length', uint32(config.context)],
    ['gpt2.embedding_length', uint32(config.channels)],
    ['gpt2.feed_forward_length', uint32(4 * config.channels)],
    ['gpt2.block_count', uint32(config.layers)],
    ['gpt2.attention.head_count', uint32(config.heads)],
    ['gpt2.attention.layer_norm_epsilon', float32(1e-5)],
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
    uint32(3).bytes,
    uint64(parameters.length).bytes,
    uint64(pairs.length).bytes,
    ...pairs.map(([key, value]) => Buffer.concat([text(key), encodeValue(value)])),
    ...parameters.map((parameter, index) => {
      // GGUF lists the innermost dimension first.
      const dimensions = [parameter.rows, ...parameter.shape.slice(1)].reverse();
      return Buffer.concat([
        text(nameOf(parameter)),
        uint32(dimensions.length).bytes,
        ...dimensions.map((size) => uint64(size).bytes),
        uint32(weightTypes[typeOf(parameter)].ggufTensor).bytes,
        uint64(places[index]!).bytes,
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

function tokenizerPairs({ tokens, types, merges, endOfText }: NonNullable<ReturnType<typeof ggufTokenizer>>): Pair[] {
  return [
    ['tokenizer.ggml.model', 'gpt2'],
    ['tokenizer.ggml.pre', 'gpt-2'],
    ['tokenizer.ggml.tokens', [...tokens]],
    ['tokenizer.ggml.token_type', types],
    ['tokenizer.ggml.merges', [...merges]],
    ['tokenizer.ggml.bos_token_id', uint32(endOfText)],
    ['tokenizer.ggml.eos_token_id', uint32(endOfText)],
    ['tokenizer.ggml.unknown_token_id', uint32(endOfText)],
  ];
}

const valueTypes = { uint32: 4, int32: 5, float32: 6, string: 8, array: 9, uint64: 10 } as const;

interface Scalar {
  readonly type: 'uint32' | 'uint64' | 'float32';
  readonly bytes: Buffer;
}
type Pair = readonly [key: string, value: string | string[] | Int32Array | Scalar];

const scalar = (type: Scalar['type'], values: ArrayBufferView<ArrayBuffer>): Scalar => ({
  type,
  bytes: Buffer.from(values.buffer),
});
const uint32 = (value: number): Scalar => scalar('uint32', Uint32Array.of(value));
const uint64 = (value: number): Scalar => scalar('uint64', BigUint64Array.of(BigInt(value)));
const float32 = (value: number): Scalar => scalar('float32', Float32Array.of(value));

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([uint64(bytes.length).bytes, bytes]);
}

function encodeValue(value: Pair[1]): Buffer {
  const typed = (type: keyof typeof valueTypes, ...parts: Buffer[]) =>
    Buffer.concat([uint32(valueTypes[type]).bytes, ...parts]);
  if (typeof value === 'string') return typed('string', text(value));
  if ('type' in value) return typed(value.type, value.bytes);
  const [type, items] = Array.isArray(value)
    ? (['string', value.map(text)] as const)
    : (['int32', [Buffer.from(value.buffer)]] as const);
  return typed('array', uint32(valueTypes[type]).bytes, uint64(value.length).bytes, ...items);
}
