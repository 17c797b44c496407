// A program's texts become a data folder, and its model a folder that sample, eval, export and train take.
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  createModel,
  Device,
  decode,
  findShards,
  initializeWeights,
  openLoader,
  readDatasetTokenizer,
  resolveWeights,
  saveModel,
  type Tokenizer,
  tokenizerNamed,
  train,
  writeShards,
} from '../../src/index.ts';
import { createCharacterTokenizer } from '../../src/tokenizer/character-tokenizer.ts';
import { workplace } from '../support/cli.ts';
import { tinyRun } from '../support/tiny-run.ts';

const place = workplace();
const bytes = tokenizerNamed('bytes');
const documents = Array.from({ length: 40 }, (_, index) => `document ${index} of forty`);
const config = { layers: 1, channels: 32, heads: 2, context: 32, vocabularySize: bytes.vocabularySize };

describe('writeShards', () => {
  it('divides texts and ids, each after end of text, and gives back the texts', async () => {
    const folder = place.path('forty');
    const given = documents.map((text, index) => (index % 2 ? text : [bytes.endOfText, ...Buffer.from(text)]));
    const { dataset } = writeShards(folder, given, { tokenizer: 'bytes', validation: 0.1 });
    expect(dataset.shards.map(({ role, tokens }) => [role, tokens > 0])).toEqual([
      ['train', true],
      ['val', true],
    ]);
    const tokenizer = readDatasetTokenizer(folder);
    const texts = (['train', 'val'] as const).map((role) => {
      const sequence = dataset.shards.find((shard) => shard.role === role)!.tokens - 1;
      const sizes = { batch: 1, sequence, vocabularySize: 257 };
      using loader = openLoader({ shards: findShards(folder, role), ...sizes, order: 'file', seed: 0 });
      const { inputs, targets } = loader.next();
      return [...inputs, targets.at(-1)!]
        .join()
        .split(`${bytes.endOfText}`)
        .filter(Boolean)
        .map((ids) => decode(ids.split(',').filter(Boolean).map(Number), tokenizer));
    });
    expect(texts[1]).toEqual([9, 19, 29, 39].map((index) => documents[index]));
    expect([...texts[0]!, ...texts[1]!].toSorted()).toEqual(documents.toSorted());
    expect(() => writeShards(folder, documents)).toThrow('holds a data set of documents of a program');
    writeShards(folder, ['a', 'b'], { tokenizer: bytes, validation: ['c'], overwrite: true });
    await train({ ...tinyRun, data: folder, out: place.path('on-forty'), sequence: 2, context: 2, steps: 1 });
  });

  it.each<[string, Parameters<typeof writeShards>[1], object, string]>([
    ['an id outside', [[1, 257], 'b'], {}, 'a document holds 257, which is no id of a vocabulary of 257'],
    ['an id that is missing', [[1, undefined as never], 'b'], {}, 'a document holds undefined, which is no id'],
    ['a function as a document', ['a', expect.any as never], {}, 'a document takes a text or ids, not a function'],
    ['a number as a document', ['a', 5 as never], {}, 'a document takes a text or ids, not 5'],
    ['one document', ['a'], {}, 'needs documents for training and for validation, not 0 and 1'],
    [
      'empty texts',
      ['', ''],
      {},
      'the documents for train have 1 of the 2 tokens that a batch needs at least; give longer texts',
    ],
    ['a text', 'ab', {}, 'documents takes texts, not "ab"'],
    ['a text for validation', documents, { validation: 'ab' }, 'validation takes texts, not "ab"'],
    ['a share', documents, { validation: 2 }, 'validation takes a number'],
    [
      'an unknown tokenizer',
      documents,
      { tokenizer: 'words' },
      'tokenizer takes one of gpt2, bytes, or what readDatasetTokenizer() or readTokenizer() returns, not "words"',
    ],
    [
      'a tokenizer without a file',
      documents,
      { tokenizer: { ...bytes, name: 'mine' } },
      'dataset.json cannot name the tokenizer mine, which has no file',
    ],
    ['another option', documents, { tokeniser: 'gpt2' }, 'tokeniser'],
  ])('refuses %s', (name, given, options, message) => {
    expect(() => writeShards(place.path(name), given, { tokenizer: 'bytes', ...options })).toThrow(message);
    expect(existsSync(place.path(name))).toBe(false);
  });
});

describe('saveModel', () => {
  const letters: Tokenizer = createCharacterTokenizer([...'abcdefghij'].map((letter) => letter.codePointAt(0)!));
  it.each([
    ['GPT-2', config, bytes, ['hf', 'gguf']],
    ['letters', { ...config, vocabularySize: letters.vocabularySize }, letters, ['hf']],
    ['modern', { ...config, norm: 'rmsnorm', head: 'untied' } as const, bytes, []],
  ])('%s: sampled, evaluated, exported and trained on', async (name, sizes, tokenizer, formats) => {
    using device = Device.open({ kind: 'cpu' });
    const model = createModel(device, sizes, { B: 1, T: 32, purpose: 'training' });
    initializeWeights(model, 1);
    const folder = place.path(`models/${name}`);
    saveModel(model, folder, { tokenizer });
    initializeWeights(model, 2);
    const path = saveModel(model, folder, { tokenizer });
    const data = place.path(`data-${name}`);
    writeShards(data, Array(200).fill('abcdefghij'), { tokenizer });
    expect((await resolveWeights(path)).tokenizer?.vocabularySize).toBe(sizes.vocabularySize);
    await place.okHere(['sample', '--model', folder, '--device', 'cpu', '--tokens', '5', '--prompt', 'ab']);
    await place.okHere(['eval', '--model', folder, '--device', 'cpu', '--data', data, '--seq', '16']);
    for (const format of formats) {
      await place.okHere(['export', '--model', folder, '--format', format, '--out', place.path(`${name}.${format}`)]);
    }
    const given = { device: 'cpu', batch: 1, sequence: 32, steps: 1, valEvery: 0 };
    const { loss } = await train({ ...given, model: folder, data, out: place.path(`on-${name}`) });
    expect(loss).toBeGreaterThan(1);
  });

  it('refuses a tokenizer of another vocabulary, a weight that is NaN, and a folder that holds something else', () => {
    using device = Device.open({ kind: 'cpu' });
    const model = createModel(device, config, { B: 1, T: 32, purpose: 'inference' });
    expect(() => saveModel(model, place.path('none'), { tokenizer: tokenizerNamed('gpt2') })).toThrow(
      "the tokenizer gpt2 has 50257 ids, over the model's vocabulary of 257",
    );
    const wide = createModel(device, { ...config, vocabularySize: 304 }, { B: 1, T: 32, purpose: 'inference' });
    expect(() => saveModel(wide, place.path('none'), { tokenizer: bytes })).toThrow(
      'a saved model with a vocabulary of 304 cannot name the tokenizer bytes; make the model with { vocabularySize: 257 }',
    );
    expect(() => saveModel(model, place.path('none'))).toThrow("the model's weights are zero");
    initializeWeights(model, 1);
    model.masters.get('h.0.fcb').write(Float32Array.of(Number.NaN), 5);
    expect(() => saveModel(model, place.path('none'))).toThrow('h.0.mlp.c_fc.bias has NaN at 5; start from finite');
    expect(existsSync(place.path('none'))).toBe(false);
    place.file('taken/config.json', '{}');
    const file = place.file('file', '');
    expect(() => saveModel(wide, `${file}/below`)).toThrow("the model's weights are zero");
    expect(() => saveModel(model, file)).toThrow('file is a file; name a folder');
    expect(() => saveModel(model, place.path('taken'))).toThrow('holds another model or run (config.json)');
  });
});
