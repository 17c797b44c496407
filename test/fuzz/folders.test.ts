// Damaged folders of transformers' GPT-2. One that is read has used every tensor, or the tensor could have no effect, and its
// configuration differs only in fields that transformers does not compute with; all others are refused in one line.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/errors.ts';
import { fromBf16, fromFp16 } from '../../src/files/half-floats.ts';
import { openHuggingFaceModel } from '../../src/formats/huggingface.ts';
import { fromStored, storedShape } from '../../src/formats/layout.ts';
import { encodeWeights } from '../../src/formats/weight-types.ts';
import { parameterTable } from '../../src/model/parameters.ts';
import { Random } from '../../src/op-cases/numbers.ts';
import { rounds, seed } from '../support/rounds.ts';
import { mutate } from './mutate.ts';

const folder = mkdtempSync(join(tmpdir(), 'gpt2-folders-'));
afterAll(() => rmSync(folder, { recursive: true }));

const model = { layers: 2, channels: 8, heads: 2, context: 4, vocabularySize: 11 };
const sizes = { n_layer: 2, n_embd: 8, n_head: 2, n_positions: 4, vocab_size: 11 };
const config = { model_type: 'gpt2', ...sizes, activation_function: 'gelu_new', layer_norm_epsilon: 1e-5 };
/** Fields of which transformers 5.18 gives the same logits, or values that are the defaults. */
const harmless: Record<string, unknown> = {
  ...{ n_ctx: 2, attn_pdrop: 0.5, use_cache: false, eos_token_id: 3, torch_dtype: 'float16', architectures: ['X'] },
  ...{ reorder_and_upcast_attn: true, n_inner: 32, hidden_size: 8, quantization_config: null, pruned_heads: {} },
  ...{ activation_function: 'gelu_pytorch_tanh', tie_word_embeddings: true, is_causal: true },
};
const harmful: Record<string, unknown> = {
  ...{ activation_function: 'gelu', layer_norm_epsilon: 1e-6, n_inner: 16, scale_attn_weights: false },
  ...{ scale_attn_by_inverse_layer_idx: true, tie_word_embeddings: false, is_causal: false, sliding_window: 2 },
  ...{ hidden_size: 16, num_attention_heads: 4, pruned_heads: { 0: [1] }, auto_map: { A: 'b' }, n_layer: 1 },
  ...{
    quantization_config: { bits: 8 },
    transformers_weights: 'x.safetensors',
    layer_types: ['x'],
    model_type: 'bert',
  },
};

interface Stored {
  name: string;
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}
const floats = ({ dtype, bytes }: Stored): Float32Array => {
  const { buffer } = Uint8Array.from(bytes);
  if (dtype === 'F32') return new Float32Array(buffer);
  if (dtype === 'F16' || dtype === 'BF16') return (dtype === 'F16' ? fromFp16 : fromBf16)(new Uint16Array(buffer));
  return Float32Array.from(bytes);
};

/** Makes, damages and reads one folder. @returns whether it was read; its reading is then checked */
function tryFolder(random: Random): boolean {
  const below = (count: number) => Math.floor(random.uniform() * count);
  const pick = <T>(from: readonly T[]): T => from[below(from.length)]!;
  const field = (from: Record<string, unknown>) => pick(Object.entries(from));
  const fields: Record<string, unknown> = { ...config };
  const files: Record<string, string> = {};
  const tensors: Stored[] = parameterTable(model).map((parameter) => {
    const shape = storedShape(parameter);
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => random.uniform());
    return { name: parameter.huggingFaceName, dtype: 'F32', shape, bytes: encodeWeights(values, 'fp32') };
  });
  const any = () => tensors[below(tensors.length)]!;
  const add = (name: string, { shape, dtype, bytes }: Omit<Stored, 'name'>) =>
    tensors.push({ name, dtype, shape: [...shape], bytes: Uint8Array.from(bytes) });
  const bit = (bytes: Uint8Array) => {
    bytes[below(bytes.length)]! ^= 1 << below(8);
  };
  const rename = (change: (name: string) => string) => {
    for (const each of tensors) each.name = change(each.name);
  };
  const mask = (size: number) =>
    Uint8Array.from({ length: size * size }, (_, at) => Number(at % size <= Math.floor(at / size)));
  let isDamaged = false;
  const changes = [
    () => Object.assign(fields, { x: 1 }),
    () => Object.assign(fields, Object.fromEntries([field(harmless)])),
    () => Object.assign(fields, Object.fromEntries([field(harmful)])),
    () => delete fields[pick(Object.keys(fields))],
    () => rename((name) => `transformer.${name}`),
    () => rename((name) => `${pick(['', 'transformer.'])}_orig_mod.${name}`),
    () => rename((name) => (name === any().name ? `${name}x` : name)),
    () => add('lm_head.weight', tensors[0]!),
    () => rename((name) => (name.endsWith('wte.weight') ? 'lm_head.weight' : name)),
    () => add('h.1.attn.bias', { dtype: pick(['U8', 'BOOL']), shape: [1, 1, 3, 3], bytes: mask(3) }),
    () => add(pick(['h.2.ln_1.weight', 'lm_head.bias', 'h.0.attn.rotary']), any()),
    () => bit(any().bytes),
    () => bit(tensors.at(-1)!.bytes),
    () => any().shape.reverse(),
    () => Object.assign(any(), { dtype: pick(['F16', 'F64', 'U8', 'X']) }),
    () => {
      for (const each of tensors)
        if (each.dtype === 'F32') Object.assign(each, { dtype: 'BF16', bytes: encodeWeights(floats(each), 'bf16') });
    },
    () => tensors.splice(below(tensors.length), 1),
    () => {
      isDamaged = true;
    },
    () => {
      files[pick(['adapter_config.json', 'spiece.model', 'pytorch_model.bin', 'tokenizer.json'])] = '{}';
    },
  ];
  for (let count = 1 + below(3); count > 0; count--) pick(changes)();

  const header: Record<string, object> = {};
  let offset = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
  }
  const text = Buffer.from(JSON.stringify(header));
  const whole = Buffer.concat([
    Buffer.from(BigUint64Array.of(BigInt(text.length)).buffer),
    text,
    ...tensors.map(({ bytes }) => bytes),
  ]);
  const damaged = isDamaged ? mutate(random, [whole]) : whole;
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  writeFileSync(join(folder, 'model.safetensors'), damaged);
  files['config.json'] = JSON.stringify(fields);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  let [read, sizesRead] = [new Map<string, Float32Array>(), {}];
  try {
    using stored = openHuggingFaceModel(folder);
    sizesRead = stored.model;
    read = new Map(parameterTable(model).map((each) => [each.huggingFaceName, stored.read(each)]));
  } catch (error) {
    expect(error).toBeInstanceOf(Gpt2Error);
    expect((error as Error).message).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
    return false;
  }
  if (damaged !== whole) return true;
  expect(sizesRead).toEqual(model);
  for (const [name, value] of Object.entries(fields))
    if (name in harmful) expect([config[name as 'n_head'], harmless[name]], name).toContainEqual(value);
  expect(Object.keys(files).filter((name) => name === 'adapter_config.json' || name === 'spiece.model')).toEqual([]);
  const parameters = new Map(parameterTable(model).map((each) => [each.huggingFaceName, each]));
  for (const each of tensors) {
    const name = each.name
      .replaceAll('_orig_mod.', '')
      .replace('transformer.', '')
      .replace('lm_head.weight', 'wte.weight');
    if (name.endsWith('.attn.bias')) expect(each.bytes).toEqual(mask(3));
    else expect(read.get(name), each.name).toEqual(fromStored(parameters.get(name)!, floats(each)));
  }
  return true;
}

it('is read with all of its tensors and fields, or refused', () => {
  const count = 300 * rounds;
  let read = 0;
  for (let index = 0; index < count; index++) if (tryFolder(new Random(seed + index))) read++;
  expect(read).toBeGreaterThan(count / 10);
  expect(count - read).toBeGreaterThan(count / 10);
});
