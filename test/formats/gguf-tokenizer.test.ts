// The tokenizers that a GGUF file can hold, and those that it refuses.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { createCharacterTokenizer } from '../../src/tokenizer/character-tokenizer.ts';
import { parseTokenizer, readTokenizer } from '../../src/tokenizer/tokenizer-file.ts';
import { ggufTokenizer } from '../../src/weights/formats/gguf-tokenizer.ts';
import { tinyConfig } from '../support/tiny-model.ts';

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/tokenizers/${name}.json`, import.meta.url));

it('holds byte-level BPE: tokens with their types, merges, and rows without a token', () => {
  const path = fixture('byte-level');
  const { model } = JSON.parse(readFileSync(path, 'utf8')) as { model: { vocab: object; merges: string[][] } };
  const made = ggufTokenizer({ ...tinyConfig, vocabularySize: 430 }, readTokenizer(path))!;
  expect(made.tokens).toHaveLength(430);
  expect(made.tokens.slice(0, 420)).toEqual(
    Object.entries(model.vocab)
      .sort(([, a], [, b]) => a - b)
      .map(([text]) => text),
  );
  expect(made.tokens.slice(419)).toEqual([
    expect.anything(),
    ' gpt2.ts',
    ...[1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => `[PAD${420 + n}]`),
  ]);
  expect([...made.types]).toEqual([3, 3, ...Array(418).fill(1), 4, ...Array(9).fill(5)]);
  expect(made.merges).toEqual(model.merges.map((pair) => pair.join(' ')));
  expect(made.endOfText).toBe(0);
});

it.each([
  ['word-piece', readTokenizer(fixture('word-piece')), 'its normalizer is unlike'],
  ['unigram', readTokenizer(fixture('unigram')), 'its normalizer is unlike'],
  ['char', createCharacterTokenizer([10, 97]), 'its pre_tokenizer.type is unlike'],
])('refuses %s', (_, tokenizer, why) => {
  expect(() => ggufTokenizer({ ...tinyConfig, vocabularySize: 430 }, tokenizer)).toThrow(
    `GGUF cannot hold the tokenizer of this model (${tokenizer.name}), ${why} GPT-2's: give --format hf, which can`,
  );
});

it('holds an added token as text, and refuses one with a flag that it has no place for', () => {
  const file = JSON.parse(readFileSync(fixture('byte-level'), 'utf8'));
  const made = (content: string, flags: object) => {
    const added_tokens = [...file.added_tokens, { ...file.added_tokens[2], id: 421, content, ...flags }];
    const tokenizer = parseTokenizer(JSON.stringify({ ...file, added_tokens }));
    return ggufTokenizer({ ...tinyConfig, vocabularySize: 422 }, tokenizer)!;
  };
  const { tokens, types } = made('đem', {});
  expect([tokens[421], types[421]]).toEqual(['đem', 4]);
  for (const flag of ['single_word', 'lstrip', 'rstrip'])
    expect(() => made('<a>', { [flag]: true })).toThrow(
      `GGUF cannot hold the token "<a>" of this model's tokenizer, which has ${flag}: give --format hf, which can`,
    );
});
