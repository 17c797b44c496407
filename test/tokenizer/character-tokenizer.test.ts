// The tokenizer of characters: nanoGPT's ids and division of tinyshakespeare, round trips, its file, characters that it lacks.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { chooseTokenizer } from '../../src/data/choose-tokenizer.ts';
import { prepareDataset } from '../../src/data/datasets/prepare.ts';
import { placeAfter, textStart } from '../../src/data/datasets/text/line-and-column.ts';
import { readDataset, readDatasetTokenizer } from '../../src/data/shards/dataset-file.ts';
import { addCharacters, createCharacterTokenizer } from '../../src/tokenizer/character-tokenizer.ts';
import { huggingFaceTokenizer } from '../../src/tokenizer/huggingface-tokenizer.ts';
import { decode, encode, promptIds, type Tokenizer } from '../../src/tokenizer/tokenizer.ts';
import { isSameTokenizer, parseTokenizer, readTokenizer } from '../../src/tokenizer/tokenizer-file.ts';
import { workplace } from '../support/cli.ts';
import { type More, ofJsonl, prepared, tokensIn } from '../support/prepared.ts';
import { publishedTexts as folder } from '../support/published.ts';

const place = workplace('each');

function tokenizerOf(text: string): Tokenizer {
  const characters = new Set<number>();
  const bytes = Buffer.from(text);
  addCharacters(bytes, 0, bytes.length, characters);
  return createCharacterTokenizer(characters);
}

describe.skipIf(!folder)('tinyshakespeare (needs the text in GPT2_DATASETS)', () => {
  it("has nanoGPT's vocabulary, division and ids", async () => {
    vi.stubEnv('GPT2_DATASETS', folder!);
    const out = place.path('data');
    const { dataset } = await prepareDataset('tinyshakespeare', { out, tokenizer: 'char' });
    expect(dataset).toMatchObject({ tokenizer: 'char', vocabularySize: 65 });
    expect(dataset.shards.map(({ role, tokens }) => [role, tokens])).toEqual([
      ['train', 1_003_854],
      ['val', 111_540],
    ]);
    const tokenizer = readDatasetTokenizer(out);
    const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'];
    expect(decode(Array(65).keys(), tokenizer)).toBe(`\n !$&',-.3:;?${letters.join('')}`);
    const ids = ['train', 'val'].flatMap((role) => tokensIn(`${out}/tiny_shakespeare_${role}.bin`));
    expect(decode(ids, tokenizer)).toBe(readFileSync(`${folder}/tinyshakespeare/input.txt`, 'utf8'));
    expect(ids.slice(0, 14)).toEqual([18, 47, 56, 57, 58, 1, 15, 47, 58, 47, 64, 43, 52, 10]);
    expect((await prepareDataset('tinyshakespeare', { out, tokenizer: 'char' })).present).toBe(true);
  });

  it('is not replaced by another tokenizer unless asked, and is remade without its file', async () => {
    vi.stubEnv('GPT2_DATASETS', folder!);
    const out = place.path('data');
    await prepareDataset('tinyshakespeare', { out, tokenizer: 'char' });
    await expect(prepareDataset('tinyshakespeare', { out })).rejects.toThrow(
      /holds a data set of .* with the tokenizer char: replace it with --overwrite/,
    );
    writeFileSync(`${out}/tokenizer.json`, '{}');
    expect((await prepareDataset('tinyshakespeare', { out, tokenizer: 'char' })).present).toBe(false);
    await prepareDataset('tinyshakespeare', { out, overwrite: true });
    expect(readdirSync(out).sort()).toEqual(['dataset.json', 'tiny_shakespeare_train.bin', 'tiny_shakespeare_val.bin']);
  });
});

it('any text comes back, with one id for each character, in the order of code points', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
      const tokenizer = tokenizerOf(text);
      const ids = encode(text, tokenizer);
      const characters = [...text];
      expect(ids.length).toBe(characters.length);
      expect(decode(ids, tokenizer)).toBe(text);
      const sorted = [...new Set(characters)].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
      expect([...ids]).toEqual(characters.map((character) => sorted.indexOf(character)));
      expect(isSameTokenizer(parseTokenizer(tokenizer.file!), tokenizer)).toBe(true);
    }),
  );
});

it('writes a file with which the Hugging Face library gives the same ids and text', () => {
  const text = 'To be, or not to be\n\n\u00e9\u0301 🦜\u0085\ufeff漢 0123 "\\"';
  const tokenizer = tokenizerOf(text);
  const library = huggingFaceTokenizer(JSON.parse(tokenizer.file!), tokenizer.file!, 'tokenizer.json');
  const ids = encode(text, library);
  expect(ids).toEqual(encode(text, tokenizer));
  expect(decode(ids, library)).toBe(text);
});

it('says which character it lacks', () => {
  expect(() => encode('naïve 🦜', tokenizerOf('native'))).toThrow(
    'the character "ï" (U+00EF) is not among the 6 of the model\'s vocabulary: leave it out, or train on a text that has it',
  );
});

it('begins a text without a prompt with a line break, or else the first id', () => {
  expect(promptIds('', tokenizerOf('\tb\na'))).toEqual([1]);
  expect(promptIds('', tokenizerOf('ab'))).toEqual([0]);
  expect(promptIds('ba', tokenizerOf('ab'))).toEqual([1, 0]);
});

it('prepares texts on threads: the characters of all documents, without an end of text', async () => {
  const texts = Array.from({ length: 400 }, (_, index) => `Zeile ${index}: ${'größer 🦜 '.repeat(index % 7)}`);
  const lines = texts.map((text) => JSON.stringify({ text, other: 'Ω' })).join('\n');
  const source = place.file('lines.jsonl', lines);
  const prepare = () => prepared([source], place.path('data'), { format: ofJsonl, validation: 0.1, tokenizer: 'char' });
  const { dataset } = await prepare();
  const tokenizer = readTokenizer(place.path('data', 'tokenizer.json'));
  expect(decode(Array(dataset.vocabularySize).keys(), tokenizer)).toBe(
    [...new Set(texts.join(''))].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!).join(''),
  );
  const written = dataset.shards.map(({ file }) => decode(tokensIn(place.path('data', file)), tokenizer));
  expect(written.join('').length).toBe(texts.join('').length);
  expect(texts.every((text) => written.some((part) => part.includes(text)))).toBe(true);
  expect((await prepare()).present).toBe(true);
  expect(readDataset(place.path('data'))?.documents).toBe(400);
});

describe('a text with a character that the tokenizer lacks', () => {
  const known = 'größer als 🦜\n';
  beforeEach(async () => {
    const from = place.file('known.txt', known.repeat(9));
    await prepareDataset('tinyshakespeare', { from, tokenizer: 'char', out: place.path('own') });
  });

  const lacks = (where: string) => `${where}: the character "Ω" (U+03A9) is not among the`;
  it.each<[where: string, name: string, text: string | Buffer, more?: More]>([
    ['line 2, column 4', 'a.txt', `\ufeff${known}gr🦜Ω`],
    ['line 500001, column 5', 'b.txt', `${known.repeat(500_000)}größΩ`],
    ['line 2, column 1', 'c.txt.gz', gzipSync(`${known}Ω`)],
    [
      'line 3',
      'd.jsonl',
      `${JSON.stringify({ text: known })}\n\n${JSON.stringify({ text: 'Ω' })}\n`,
      { format: ofJsonl },
    ],
  ])('is refused at %s of %s', async (where, name, text, more = {}) => {
    const options = { tokenizer: place.path('own'), workers: 1, ...more };
    const made = prepared([place.file(name, text)], place.path('data'), options);
    await expect(made).rejects.toThrow(lacks(`${where} of ${place.path(name)}`));
  });

  it('is refused by its document of a data set', async () => {
    const from = place.file('e.txt', `${known}\n${known}Ω`);
    const options = { from, tokenizer: place.path('own/tokenizer.json'), out: place.path('other') };
    await expect(prepareDataset('tinyshakespeare', options)).rejects.toThrow(
      lacks('line 2, column 1 of the document that begins with "größer als 🦜\\nΩ"'),
    );
  });
});

it('takes the folder of a data set or of another with a tokenizer.json', () => {
  const tokenizer = tokenizerOf('ab');
  place.file('tokenizer.json', tokenizer.file!);
  expect(chooseTokenizer(place.folder)?.file).toBe(tokenizer.file);
  expect(chooseTokenizer(place.data({ vocabulary: 50257 }))?.name).toBe('gpt2');
  const run = place.path('run');
  mkdirSync(run);
  expect(() => chooseTokenizer(run)).toThrow(`${run} has no tokenizer.json; --tokenizer takes gpt2, bytes, char, a`);
  // The newest checkpoint that has one.
  for (const name of ['step-00000002', 'step-00000010', 'step-00000030.tmp']) {
    const own = name === 'step-00000010' ? tokenizer : tokenizerOf('cd');
    place.file(`run/checkpoints/${name}/tokenizer.json`, own.file!);
  }
  mkdirSync(join(run, 'checkpoints', 'step-00000020'));
  expect(chooseTokenizer(run)?.file).toBe(tokenizer.file);
});

it.each([
  ['ab\u00e9d', 4, 'line 1, column 4'],
  ['\ufeffabd', 5, 'line 1, column 3'],
  ['\ufeff', 0, 'line 1, column 1'],
  ['a\n\ufeffb', 5, 'line 2, column 2'],
])('the place in %j after %i bytes is %s', (text, bytes, place) => {
  const { line, column } = placeAfter(Buffer.from(text).subarray(0, bytes), textStart);
  expect(`line ${line}, column ${column}`).toBe(place);
});

it('refuses a text with too many characters', async () => {
  const text = String.fromCodePoint(...Array.from({ length: 70_000 }, (_, index) => 0x10000 + index));
  const options = { out: place.path('data'), from: place.file('text.txt', text) };
  await expect(prepareDataset('tinyshakespeare', { ...options, tokenizer: 'char' })).rejects.toThrow(
    'the text has 70000 different characters, more than the 65536 ids of a token file',
  );
});
