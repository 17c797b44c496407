// Models written for other programs, read back byte by byte: every tensor with the values of the checkpoint, in the place and
// the order of its format. What those programs make of them was checked with them: transformers, gguf.
import { existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { fromBf16, fromFp16, toBf16 } from '../../src/base/files/half-floats.ts';
import { Device, exportModel, Gpt2Error, parameterTable, resolveWeights, writeCheckpoint } from '../../src/index.ts';
import { paddedVocabularySize } from '../../src/model/config.ts';
import { realCount } from '../../src/model/parameters.ts';
import { elementCount } from '../../src/native/element-types.ts';
import { floats, held } from '../../src/ops/cases/case-numbers.ts';
import { tokenizerFiles } from '../../src/tokenizer/gpt2-files.ts';
import { gpt2 } from '../../src/tokenizer/tokenizer.ts';
import { openSafetensors } from '../../src/weights/files/safetensors.ts';
import { encodeWeights } from '../../src/weights/files/weight-types.ts';
import { ggufTokenizer } from '../../src/weights/formats/gguf-tokenizer.ts';
import { refuseOtherTokenizer } from '../../src/weights/weights.ts';
import { manifestFields, trainedModel, writtenModel } from '../checkpoint/trained-model.ts';
import { workplace } from '../support/cli.ts';
import { tinyConfig } from '../support/tiny-model.ts';

const place = workplace();
let model: string;
/** Every parameter as it lies in the device, padding rows and all, by its name in the table. */
let weights: Map<string, Float32Array>;

beforeAll(() => {
  const written = writtenModel(place.path('checkpoints'));
  model = written.path;
  const content = Object.entries(written.content);
  weights = new Map(content.flatMap(([name, values]) => (name.startsWith('0/') ? [[name.slice(2), values]] : [])));
});

const { layers, channels: C, context, vocabularySize: V } = tinyConfig;
const shapes: Record<string, number[]> = {
  ...{ wte: [V, C], wpe: [context, C], lnfw: [C], lnfb: [C], ln1w: [C], ln1b: [C], ln2w: [C], ln2b: [C] },
  ...{ qkvw: [3 * C, C], qkvb: [3 * C], attprojw: [C, C], attprojb: [C] },
  ...{ fcw: [4 * C, C], fcb: [4 * C], fcprojw: [C, 4 * C], fcprojb: [C] },
};
const toFp16 = (values: Float32Array) => new Uint16Array(encodeWeights(values, 'fp16').buffer);
const inLayers = (name: string) => Array.from({ length: layers }, (_, layer) => `h.${layer}.${name}`);

it.each(['fp32', 'bf16'] as const)('llm.c: %s: header, then each kind of parameter for all layers', async (dtype) => {
  const out = place.path(`${dtype}.bin`);
  await exportModel({ model, format: 'llmc', out, dtype });
  const file = readFileSync(out);
  const header = new Int32Array(file.buffer.slice(file.byteOffset, file.byteOffset + 1024));
  const padded = paddedVocabularySize(tinyConfig);
  expect([...header.subarray(0, 9)]).toEqual([
    ...[20240326, dtype === 'fp32' ? 3 : 5, context, V, layers, tinyConfig.heads, C, padded, 0],
  ]);
  const kinds = 'ln1w ln1b qkvw qkvb attprojw attprojb ln2w ln2b fcw fcb fcprojw fcprojb'.split(' ');
  const names = ['wte', 'wpe', ...kinds.flatMap(inLayers), 'lnfw', 'lnfb'];
  const wanted = Buffer.concat(
    names.map((name) => {
      const values = weights.get(name)!;
      return dtype === 'fp32' ? Buffer.from(values.buffer) : Buffer.from(toBf16(values).buffer);
    }),
  );
  expect(file.subarray(1024).equals(wanted)).toBe(true);
});

it('Hugging Face: the weights as they are, a configuration, and no tokenizer for another vocabulary', async () => {
  const out = place.path('hf');
  await exportModel({ model, format: 'hf', out });
  const name = 'model.safetensors';
  expect(readFileSync(join(out, name)).equals(readFileSync(join(model, name)))).toBe(true);
  using file = openSafetensors(join(out, name));
  expect(file.shape('h.1.attn.c_attn.weight')).toEqual([C, 3 * C]);
  const config = JSON.parse(readFileSync(join(out, 'config.json'), 'utf8')) as Record<string, unknown>;
  expect(config).toMatchObject({
    ...{ model_type: 'gpt2', architectures: ['GPT2LMHeadModel'], activation_function: 'gelu_new' },
    ...{ n_layer: layers, n_embd: C, n_head: tinyConfig.heads, n_positions: context, vocab_size: V },
  });
  expect(existsSync(join(out, 'vocab.json'))).toBe(false);
});

describe('a model of another program, without training', () => {
  it.each(['hf', 'llmc', 'gguf'] as const)('becomes the same %s as the checkpoint, in new folders', async (format) => {
    await exportModel({ model, format: 'hf', out: place.path(`via-hf-${format}`) });
    await exportModel({ model, format: 'llmc', out: place.path(`via-${format}.bin`) });
    const written = async (source: string, name: string) => {
      const out = place.path('on', 'the', `way-${format}`, name);
      expect(await exportModel({ model: source, format, out })).toBe(source);
      return readFileSync(join(out, ...(format === 'hf' ? ['model.safetensors'] : [])));
    };
    const direct = await written(model, `direct-${format}`);
    expect((await written(place.path(`via-hf-${format}`), `from-hf-${format}`)).equals(direct)).toBe(true);
    expect((await written(place.path(`via-${format}.bin`), `from-llmc-${format}`)).equals(direct)).toBe(true);
  });

  it.each(['bf16', 'fp16'] as const)('is rounded to %s', async (dtype) => {
    const out = place.path(`hf-${dtype}`);
    await exportModel({ model, format: 'hf', out, dtype });
    const config = JSON.parse(readFileSync(join(out, 'config.json'), 'utf8'));
    expect(config.torch_dtype).toBe({ bf16: 'bfloat16', fp16: 'float16' }[dtype]);
    using file = openSafetensors(join(out, 'model.safetensors'));
    const values = weights.get('wte')!.subarray(0, V * C);
    const rounded = new Uint16Array(encodeWeights(values, dtype).buffer);
    expect(file.read('wte.weight')).toEqual(dtype === 'bf16' ? fromBf16(rounded) : fromFp16(rounded));
    expect((await resolveWeights(out)).model).toEqual(tinyConfig);
  });
});

describe('a model of bytes', () => {
  let bytesModel: string;
  beforeAll(() => {
    bytesModel = writtenModel(place.path('of-bytes'), { ...tinyConfig, vocabularySize: 257 }).path;
  });

  it('has its tokenizer in the folder, and the folder is read', async () => {
    const out = place.path('bytes-hf');
    const notices: string[] = [];
    await exportModel({ model: bytesModel, format: 'hf', out, notice: (text) => notices.push(text) });
    const json = (name: string) => JSON.parse(readFileSync(join(out, name), 'utf8'));
    const vocabulary = json('vocab.json');
    expect(Object.keys(vocabulary)).toHaveLength(257);
    expect(vocabulary).toMatchObject({ A: 65, Ġ: 32, Ċ: 10, Ã: 0xc3, '<|endoftext|>': 256 });
    expect(readFileSync(join(out, 'merges.txt'), 'utf8')).toBe('#version: 0.2\n');
    expect(json('tokenizer.json').added_tokens).toMatchObject([{ id: 256, content: '<|endoftext|>' }]);
    expect(json('tokenizer_config.json')).toMatchObject({ clean_up_tokenization_spaces: false });
    expect(json('config.json')).toMatchObject({ bos_token_id: 256, eos_token_id: 256 });
    expect((await resolveWeights(out)).model.vocabularySize).toBe(257);
    expect(notices).toEqual([]);
  });

  it('has it in GGUF', async () => {
    const out = place.path('bytes.gguf');
    await exportModel({ model: bytesModel, format: 'gguf', out });
    const file = readFileSync(out);
    const at = file.indexOf('tokenizer.ggml.tokens') + 'tokenizer.ggml.tokens'.length;
    expect([file.readUInt32LE(at), file.readUInt32LE(at + 4), file.readUInt32LE(at + 8)]).toEqual([9, 8, 257]);
    const end = 'tokenizer.ggml.eos_token_id';
    expect(file.readUInt32LE(file.indexOf(end) + end.length + 4)).toBe(256);
  });
});

it("a model with more rows than GPT-2's ids has GPT-2's tokenizer, in exports and for data", async () => {
  const { path: from } = writtenModel(place.path('rows'), { ...tinyConfig, vocabularySize: 50264 });
  const notice = (text: string) => expect.fail(text);
  for (const format of ['hf', 'gguf', 'llmc'] as const)
    await exportModel({ model: from, format, out: place.path(`rows-${format}`), notice });
  const { model: read, tokenizer } = await resolveWeights(place.path('rows-hf'));
  expect([read.vocabularySize, tokenizer]).toEqual([50264, gpt2]);
  expect(readFileSync(place.path('rows-gguf')).includes('[PAD50263]')).toBe(true);
  const dataset = { source: '', tokenizer: 'gpt2', vocabularySize: 50257, shards: [] };
  for (const path of [from, place.path('rows-hf')]) {
    const weights = await resolveWeights(path);
    refuseOtherTokenizer(weights, 'data', dataset);
    const more = { ...dataset, vocabularySize: 50300 };
    expect(() => refuseOtherTokenizer(weights, 'data', more)).toThrow('data has a vocabulary of 50300 tokens');
  }
  const { types } = ggufTokenizer(read, undefined)!;
  expect([types.length, ...types.slice(50255, 50258)]).toEqual([50264, 1, 3, 5]);
});

it('says that an export has no tokenizer', async () => {
  const { stderr, stdout } = await place.okHere(`export --model ${model} --format gguf --out none.gguf`);
  expect(stderr).toBe(`the export has no tokenizer: none is known for a vocabulary of ${V} tokens\n`);
  expect(stdout).toMatch(/^wrote none\.gguf/);
  const made = await place.okHere(['export', '--model', model, '--format', 'llmc', '--out', 'none.bin']);
  expect(made.stdout).toMatch(/^wrote none\.bin from .*step-00000001: [\d.]+ [KM]iB, fp32\n$/);
  expect(made.stderr).toBe(
    `llm.c's format holds no tokenizer: its programs decode with GPT-2's, and for this model none is known for a vocabulary of ${V} tokens\n`,
  );
});

it("GPT-2's tokenizer has 50,257 tokens and the merges that make them", () => {
  const { tokens, merges } = tokenizerFiles(gpt2);
  expect(tokens.length).toBe(50257);
  expect(merges.length).toBe(50000);
  expect(merges.slice(0, 3)).toEqual(['Ġ t', 'Ġ a', 'h e']);
  expect([tokens[0], tokens[198], tokens[220], tokens[50256]]).toEqual(['!', 'Ċ', 'Ġ', '<|endoftext|>']);
  for (const [index, merge] of merges.entries()) {
    const parts = merge.split(' ');
    expect(parts.length).toBe(2);
    expect(parts.join('')).toBe(tokens[256 + index]);
  }
});

it.each(['fp32', 'bf16', 'fp16'] as const)('GGUF: %s: keys, tensors by name, values on 32 bytes', async (dtype) => {
  const out = place.path(`${dtype}.gguf`);
  await exportModel({ model, format: 'gguf', out, dtype });
  const file = readFileSync(out);
  let at = 4;
  const take = (bytes: number) => {
    at += bytes;
    return file.subarray(at - bytes, at);
  };
  const u32 = () => take(4).readUInt32LE();
  const u64 = () => Number(take(8).readBigUInt64LE());
  const text = () => take(u64()).toString('utf8');
  expect(file.toString('latin1', 0, 4)).toBe('GGUF');
  expect(u32()).toBe(3);
  const [tensorCount, pairCount] = [u64(), u64()];
  const value: Record<number, () => unknown> = { 4: u32, 6: () => take(4).readFloatLE(), 8: text, 10: u64 };
  const pairs = Object.fromEntries(Array.from({ length: pairCount }, () => [text(), value[u32()]!()]));
  expect(pairs).toMatchObject({
    'general.architecture': 'gpt2',
    'general.file_type': { fp32: 0, bf16: 32, fp16: 1 }[dtype],
    'gpt2.block_count': layers,
    'gpt2.embedding_length': C,
    'gpt2.feed_forward_length': 4 * C,
    'gpt2.attention.head_count': tinyConfig.heads,
    'gpt2.context_length': context,
  });
  const tensors = Array.from({ length: tensorCount }, () => {
    const name = text();
    return { name, shape: Array.from({ length: u32() }, u64), type: u32(), offset: u64() };
  });
  const start = Math.ceil(at / 32) * 32;
  const short: Record<string, string> = {
    ...{ 'token_embd.weight': 'wte', 'position_embd.weight': 'wpe' },
    ...{ 'output_norm.weight': 'lnfw', 'output_norm.bias': 'lnfb', attn_norm: 'ln1', attn_qkv: 'qkv' },
    ...{ attn_output: 'attproj', ffn_norm: 'ln2', ffn_up: 'fc', ffn_down: 'fcproj' },
  };
  const seen = new Set<string>();
  for (const { name, shape, type, offset } of tensors) {
    const [, layer, kind, part] = /^(?:blk\.(\d+)\.(\w+)\.(\w)\w+|.*)$/.exec(name)!;
    const ours = layer === undefined ? short[name]! : `h.${layer}.${short[kind!]}${part}`;
    seen.add(ours);
    const wanted = shapes[ours.split('.').at(-1)!]!;
    expect(shape, name).toEqual(wanted.toReversed());
    const values = weights.get(ours)!.subarray(0, elementCount(wanted));
    const isRounded = dtype !== 'fp32' && wanted.length === 2 && ours !== 'wpe';
    expect(type, name).toBe(isRounded ? { bf16: 30, fp16: 1 }[dtype] : 0);
    expect(offset % 32).toBe(0);
    const bytes = encodeWeights(values, isRounded ? dtype : 'fp32');
    expect(file.subarray(start + offset, start + offset + bytes.length).equals(bytes), name).toBe(true);
  }
  expect(seen).toEqual(new Set(weights.keys()));
});

it('rounds to bf16 as the nearest even does, and keeps what is not finite', () => {
  const values = Float32Array.of(1, 1.00390625, 1.01171875, -1.004, 3.39e38, Number.POSITIVE_INFINITY, Number.NaN, -0);
  const bits = new Uint16Array(encodeWeights(values, 'bf16').buffer);
  expect([...bits]).toEqual([0x3f80, 0x3f80, 0x3f82, 0xbf81, 0x7f7f, 0x7f80, 0x7fc0, 0x8000]);
  expect(() => encodeWeights(Float32Array.of(3.4e38), 'bf16')).toThrow(/^the weight 3\.\d+e\+38 is over .* of bf16: /);
});

it('rounds to fp16 as the nearest even does, and refuses what is over its range', () => {
  const values = [1, 1 + 2 ** -11, 1 + 3 * 2 ** -11, -2, 65519, 2 ** -14, 2 ** -24, 2 ** -25, 3 * 2 ** -25, 2 ** -15];
  const bits = new Uint16Array(
    encodeWeights(Float32Array.of(...values, Number.NEGATIVE_INFINITY, Number.NaN, -0), 'fp16').buffer,
  );
  expect([...bits]).toEqual([
    ...[0x3c00, 0x3c00, 0x3c02, 0xc000, 0x7bff, 0x0400, 0x0001, 0x0000, 0x0002, 0x0200],
    ...[0xfc00, 0x7e00, 0x8000],
  ]);
  const negative = new Float32Array(Uint32Array.of(0xffc00000).buffer);
  expect([...toFp16(negative)], 'a NaN with a sign').toEqual([0xfe00]);
  // Every fp16 number comes back.
  const all = Uint16Array.from({ length: 0x7c01 }, (_, index) => index);
  expect(new Uint16Array(encodeWeights(fromFp16(all), 'fp16').buffer)).toEqual(all);
  expect(() => encodeWeights(Float32Array.of(65520), 'fp16')).toThrow('the weight 65520 is over the range of fp16');
});

it.each(['llmc', 'gguf', 'hf'] as const)('%s: weights that are not finite are refused', async (format) => {
  const { path: model } = writtenModel(place.path(`broken-${format}`), tinyConfig, ({ masters }) =>
    masters.get('h.1.fcw').write(Float32Array.of(Number.NaN), 5),
  );
  const out = place.path(`broken.${format}`);
  await expect(exportModel({ model, format, out })).rejects.toThrow(
    /broken-.*: h\.1\.mlp\.c_fc\.weight has NaN at \d+; export/,
  );
  expect(existsSync(out)).toBe(false);
});

describe('a folder of transformers is read', () => {
  /** Exports the model, changes the folder, and gives what resolveWeights says of it. */
  async function changed(name: string, change: (folder: string) => void): ReturnType<typeof resolveWeights> {
    const out = place.path(name);
    await exportModel({ model, format: 'hf', out });
    change(out);
    return resolveWeights(out);
  }
  const config = (change: object) => (folder: string) => {
    const path = join(folder, 'config.json');
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...change }));
  };
  type More = [name: string, dtype: string, shape: number[], bytes: Uint8Array];
  /** Its tensors under other names, of another type, or with more beside them. */
  const tensors =
    (change: (name: string) => string, type: 'F32' | 'BF16' | 'F16' = 'F32', more: More[] = []) =>
    (folder: string) => {
      const path = join(folder, 'model.safetensors');
      using file = openSafetensors(path);
      const header: Record<string, object> = {};
      const parts: Buffer[] = [];
      let offset = 0;
      const add = (name: string, shape: readonly number[], bytes: Buffer, dtype: string) => {
        header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
        offset += bytes.length;
        parts.push(bytes);
      };
      for (const name of file.names) {
        const values = file.read(name);
        const half = type === 'BF16' ? toBf16(values) : toFp16(values);
        add(change(name), file.shape(name), Buffer.from((type === 'F32' ? values : half).buffer), type);
      }
      for (const [name, dtype, shape, bytes] of more) add(name, shape, Buffer.from(bytes), dtype);
      const text = Buffer.from(JSON.stringify(header));
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(text.length));
      writeFileSync(path, Buffer.concat([length, text, ...parts]));
    };
  const same = (name: string) => name;

  it('as it was exported: the checkpoint made from it is the same byte for byte', async () => {
    const out = place.path('hf-back');
    await exportModel({ model, format: 'hf', out });
    using device = Device.open({ kind: 'cpu' });
    const read = await resolveWeights(out);
    expect(read.model).toEqual(tinyConfig);
    const back = trainedModel(device, 2);
    read.load(back.model);
    const again = writeCheckpoint({ folder: place.path('back'), step: 1, ...back, manifest: manifestFields });
    const bytes = (checkpoint: string) => readFileSync(join(checkpoint, 'model.safetensors'));
    expect(bytes(again).equals(bytes(model))).toBe(true);
  });

  it.each(['BF16', 'F16'] as const)(
    'in %s, under the names of a whole model, with masks and the head beside it',
    async (type) => {
      const head = weights.get('wte')!.slice(0, V * C);
      const half = type === 'BF16' ? toBf16(head) : toFp16(head);
      const names = tensors((name) => `transformer.${name}`, type, [
        ['transformer.h.0.attn.bias', 'U8', [1, 1, 2, 2], Uint8Array.of(1, 0, 1, 1)],
        ['transformer.h.1.attn.masked_bias', 'BF16', [], Uint8Array.of(0x1c, 0xc6)],
        ['lm_head.weight', type, [V, C], new Uint8Array(half.buffer)],
      ]);
      const read = await changed(`hf-${type}`, names);
      using device = Device.open({ kind: 'cpu' });
      const back = trainedModel(device, 2);
      read.load(back.model);
      for (const [name, values] of weights) {
        const wanted = type === 'BF16' ? held('bf16', values) : fromFp16(toFp16(values));
        expect(floats(back.model.masters.get(name))).toEqual(Float32Array.from(wanted));
      }
    },
  );

  it.each([
    ['transformers', same],
    ['torch.compile', (name: string) => `_orig_mod.transformer.${name}`],
    ['torch.compile of the inner model', (name: string) => `transformer._orig_mod.${name}`],
    ['compiled layers', (name: string) => `_orig_mod.${name.replace(/^h\.\d+\./, '$&_orig_mod.')}`],
    ["safetensors' save_model", (name: string) => (name === 'wte.weight' ? 'lm_head.weight' : `transformer.${name}`)],
  ] as const)('under the names of %s', async (name, change) => {
    using stored = (await changed(`hf ${name}`, tensors(change))).open();
    for (const each of parameterTable(tinyConfig))
      expect(stored.read(each), each.name).toEqual(weights.get(each.name)!.subarray(0, realCount(each)));
  });

  it("with transformers' other names for sizes", async () => {
    const given = { n_layer: undefined, n_embd: undefined, n_head: undefined, n_positions: undefined };
    const others = { num_hidden_layers: layers, hidden_size: C, num_attention_heads: tinyConfig.heads };
    const read = await changed('hf-names', config({ ...given, ...others, max_position_embeddings: context }));
    expect(read.model).toEqual(tinyConfig);
  });

  const head = 'lm_head.weight';
  const weightsFile = 'model.safetensors';
  const beside = (name: string, dtype: string, shape: number[], bytes = Buffer.alloc(4 * V * C)) =>
    tensors(same, 'F32', [[name, dtype, shape, bytes]]);
  const file = (name: string, content = '{}') => {
    return (folder: string) => writeFileSync(join(folder, name), content);
  };
  const without = (name: string) => (folder: string) => rmSync(join(folder, name));
  const both = (...changes: ((folder: string) => void)[]) => {
    return (folder: string) => changes.forEach((change) => void change(folder));
  };
  const t5 = '{"tokenizer_class":"T5Tokenizer"}';
  it.each<[string, (folder: string) => void, string]>([
    ['a new head', beside(head, 'F32', [V, C]), 'is not wte.weight: an untied head cannot be read, with --head untied'],
    ['a head of bytes', beside(head, 'U8', [V, C], Buffer.alloc(V * C)), `${head} is U8; only F32, F16, BF16 can be`],
    ['a mask of nothing', beside('h.0.attn.bias', 'F32', [1, 1, 2, 2], Buffer.alloc(16)), 'nor its causal mask'],
    ['a mask of layer 7', beside('h.7.attn.bias', 'U8', [1, 1, 1, 1], Buffer.of(1)), 'has tensors of 3 layers'],
    ['another tensor', beside('transformer.h.0.foo', 'U8', [1], Buffer.of(1)), 'has transformer.h.0.foo, which is'],
    ['a mask that hides little', beside('h.0.attn.masked_bias', 'F32', [], Buffer.alloc(4)), 'nor its causal mask'],
    ['attention to later tokens', config({ is_causal: false }), 'has is_causal false instead of true, unlike'],
    ['a window', config({ sliding_window: 2 }), 'its config.json has sliding_window, unlike GPT-2'],
    ['sizes by two names', config({ hidden_size: 96 }), 'its config.json has hidden_size 96 instead of 48, unlike'],
    ['an adapter', file('adapter_config.json'), 'adapter_config.json describes an adapter; merge it'],
    ['a SentencePiece model', file('spiece.model'), 'its tokenizer is in spiece.model'],
    ['another tokenizer', file('tokenizer_config.json', t5), 'it has a T5Tokenizer without a tokenizer.json'],
    ['another model', config({ model_type: 'llama' }), 'model_type of its config.json: it is "llama", not "gpt2"'],
    ['a modern model', config({ model_type: 'gpt2_ts' }), 'it is "gpt2_ts", not "gpt2"; name the run instead'],
    ['no number of layers', config({ n_layer: 'two' }), 'n_layer of its config.json: it is "two", not a whole'],
    ['no width', config({ n_embd: undefined }), 'n_embd of its config.json: it is missing'],
    ['many tokens', config({ vocab_size: 7e4 }), 'vocab_size of its config.json: it is 70000, over'],
    ['a layer too many', config({ n_layer: layers + 1 }), 'is 3, but model.safetensors has tensors of 2 layers'],
    ['a layer too few', config({ n_layer: layers - 1 }), 'is 1, but model.safetensors has tensors of 2 layers'],
    ['a billion layers', config({ n_layer: 1e9 }), 'is 1000000000, but model.safetensors has tensors of 2 layers'],
    ['another vocabulary', file('vocab.json', '{"Hallo":0,"Welt":1}'), "its vocab.json is not GPT-2's vocabulary"],
    ['a tensor twice', beside('transformer.wte.weight', 'F32', [V, C]), 'twice, as wte.weight and transformer.wte'],
    ['another width', config({ n_embd: 96 }), 'wte.weight is [61,48], not [61,96]'],
    ['another GELU', config({ activation_function: 'relu' }), 'relu instead of gelu_new or gelu_pytorch_tanh'],
    ['another MLP', config({ n_inner: 100 }), 'n_inner 100 instead of null or 192'],
    ['a head of its own', config({ tie_word_embeddings: false }), 'an untied head cannot be read'],
    ['heads that do not divide', config({ n_head: 5 }), 'n_head of its config.json: it is 5, which does not'],
    ['no configuration', without('config.json'), 'is not a GPT-2 that can be read: it has no config.json'],
    [
      'the end of text of a tokenizer that it lacks',
      config({ vocab_size: 50257, eos_token_id: 0 }),
      'it has no tokenizer.json, and eos_token_id 0 of its config.json is not the end of text of gpt2',
    ],
    ['a field twice', file('config.json', '{"n_layer":2,"n_layer":3}'), 'the key "n_layer" twice in one object'],
    ['no JSON', file('config.json', '{'), 'its config.json cannot be read'],
    ['no weights', without(weightsFile), 'it has no model.safetensors; save it'],
    ['an empty llama', both(config({ model_type: 'llama' }), without(weightsFile)), 'it is "llama", not "gpt2"'],
    ['no weights and no JSON', both(file('config.json', '{'), without(weightsFile)), 'its config.json cannot be read'],
    ['weights in parts', both(without(weightsFile), file(`${weightsFile}.index.json`)), 'max_shard_size='],
    ['tensors of other names', tensors((name) => name.replace('ln_f', 'norm')), 'lacks ln_f.weight'],
    ['a pointer of Git LFS', file(weightsFile, 'version https://git-lfs.github.com/spec/v1'), 'run `git lfs pull`'],
    ['half a file', (folder) => truncateSync(join(folder, weightsFile), 5000), 'is not a complete safetensors file'],
  ])('but not %s', async (name, change, message) => {
    const error = await changed(`hf ${name}`, change).catch((reason: Gpt2Error) => reason);
    expect(error).toBeInstanceOf(Gpt2Error);
    expect((error as Gpt2Error).message).toContain(message);
    expect((error as Gpt2Error).message).not.toContain('\n');
  });
});
