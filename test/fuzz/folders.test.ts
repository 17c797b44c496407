// Damaged folders of transformers' GPT-2. One that is read has used every tensor, or the tensor could have no effect, and its
// configuration differs only in fields that transformers does not compute with; all others are refused in one line.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { parameterTable } from '../../src/model/parameters.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { fromStored, storedShape } from '../../src/weights/files/layout.ts';
import { openSafetensors, writeSafetensors } from '../../src/weights/files/safetensors.ts';
import { openerOf } from '../../src/weights/formats/formats.ts';
import type { StoredModel } from '../../src/weights/formats/stored-model.ts';
import { workplace } from '../support/cli.ts';
import { rounds, seed } from '../support/rounds.ts';
import { mutate } from './mutate.ts';

const place = workplace();

const model = { layers: 2, channels: 8, heads: 2, context: 4, vocabularySize: 11 };
const config = { model_type: 'gpt2', n_layer: 2, n_embd: 8, n_head: 2, n_positions: 4, vocab_size: 11 };
/** With these fields transformers 5.18 gives the same logits. */
const harmless = {
  ...{ n_ctx: 2, attn_pdrop: 0.5, eos_token_id: 3, torch_dtype: 'float16', reorder_and_upcast_attn: true, n_inner: 32 },
  ...{ hidden_size: 8, quantization_config: null, activation_function: 'gelu_pytorch_tanh', layer_norm_epsilon: 1e-5 },
};
const harmful = {
  ...{ activation_function: 'gelu', layer_norm_epsilon: 1e-6, n_inner: 16, scale_attn_weights: false },
  is_causal: false,
  ...{ scale_attn_by_inverse_layer_idx: true, tie_word_embeddings: false, sliding_window: 2, num_attention_heads: 4 },
  ...{ hidden_size: 16, pruned_heads: { 0: [1] }, auto_map: { A: 'b' }, quantization_config: { bits: 8 }, n_layer: 1 },
};
const mask = Float32Array.of(1, 0, 0, 1, 1, 0, 1, 1, 1);

/** Makes and damages a folder. @returns whether it was read */
function tryFolder(random: Random): boolean {
  const below = (count: number) => Math.floor(random.uniform() * count);
  const pick = <T>(from: readonly T[]): T => from[below(from.length)]!;
  const fields: Record<string, unknown> = { ...config };
  const set = (from: object) => Object.assign(fields, Object.fromEntries([pick(Object.entries(from))]));
  let tensors = new Map(
    parameterTable(model).map((parameter) => {
      const shape = storedShape(parameter);
      const count = shape.reduce((a, b) => a * b);
      return [parameter.huggingFaceName, { shape, values: Float32Array.from({ length: count }, () => below(9)) }];
    }),
  );
  const rename = (change: (name: string) => string) => {
    tensors = new Map([...tensors].map(([name, tensor]) => [change(name), tensor]));
  };
  const any = () => pick([...tensors]);
  const changes = [
    () => set(harmless),
    () => set(harmful),
    () => delete fields[pick(Object.keys(fields))],
    () => rename((name) => `${pick(['', '_orig_mod.'])}transformer.${pick(['', '_orig_mod.'])}${name}`),
    () => rename((name) => (name.endsWith('wte.weight') ? 'lm_head.weight' : name)),
    () => rename((name) => (random.uniform() < 0.1 ? `${name}x` : name)),
    () => tensors.set('lm_head.weight', { ...[...tensors.values()][0]! }),
    () => tensors.set('h.1.attn.bias', { shape: [1, 1, 3, 3], values: mask }),
    () => tensors.set(pick(['h.2.ln_1.weight', 'lm_head.bias', 'h.0.attn.rotary']), any()[1]),
    () => tensors.set(any()[0], { ...any()[1] }),
    () => any()[1].values.fill(0.5, 0, 1),
    () => tensors.set('lm_head.weight', { shape: [11, 8], values: new Float32Array(88) }),
    () => tensors.delete(any()[0]),
    () => place.file(pick(['adapter_config.json', 'spiece.model', 'pytorch_model.bin', 'tokenizer.json']), '{}'),
  ];
  for (const name of readdirSync(place.folder)) rmSync(place.path(name));
  for (let count = 1 + below(3); count > 0; count--) pick(changes)();
  place.file('config.json', JSON.stringify(fields));
  const weights = place.path('model.safetensors');
  const list = [...tensors].map(([name, { shape, values }]) => ({ name, shape, read: () => values }));
  writeSafetensors(weights, list, pick(['fp32', 'fp32', 'bf16', 'fp16']));
  if (random.uniform() < 0.1) writeFileSync(weights, mutate(random, [readFileSync(weights)]));
  let stored: StoredModel;
  try {
    stored = openerOf(place.folder)!();
    for (const each of parameterTable(stored.model)) stored.read(each);
  } catch (error) {
    expect(error).toBeInstanceOf(Gpt2Error);
    expect((error as Error).message).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
    return false;
  }
  // Without n_head, transformers reads num_attention_heads.
  const { n_head: heads = fields.num_attention_heads } = fields;
  expect(stored.model).toEqual({ ...model, heads });
  const parameters = new Map(parameterTable(model).map((each) => [each.huggingFaceName, each]));
  using opened = openSafetensors(weights);
  for (const name of opened.names) {
    const plain = name.replaceAll('_orig_mod.', '').replace('transformer.', '').replace('lm_head', 'wte');
    const parameter = parameters.get(plain);
    const values = opened.read(name, true);
    if (parameter) expect(stored.read(parameter), name).toEqual(fromStored(parameter, values));
    else expect([plain, values]).toEqual(['h.1.attn.bias', mask]);
  }
  const refused = { ...harmful, num_attention_heads: fields.n_head === undefined ? 'none' : 4 };
  for (const [name, value] of Object.entries(refused)) expect(fields[name], name).not.toEqual(value);
  expect(readdirSync(place.folder).filter((name) => /^adapter|^spiece|^tokenizer/.test(name))).toEqual([]);
  stored[Symbol.dispose]();
  return true;
}

it('is read with all of its tensors and fields, or refused', () => {
  const count = 300 * rounds;
  const read = Array.from({ length: count }, (_, index) => tryFolder(new Random(seed + index))).filter(Boolean).length;
  expect(read).toBeGreaterThan(count / 10);
  expect(count - read).toBeGreaterThan(count / 10);
});
