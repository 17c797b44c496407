// `prepro inspect` as a user runs it: counts and text of a shard in its own tokenizer, and what it refuses.
import { writeFileSync } from 'node:fs';
import { beforeAll, expect, it } from 'vitest';
import { writeShard } from '../../src/data/shards/shard.ts';
import { encode, endOfText } from '../../src/tokenizer/tokenizer.ts';
import { workplace } from '../support/cli.ts';

const place = workplace();
beforeAll(() => {
  const tokens = ['Hello world', 'ROMEO: naïve 🦜'].flatMap((text) => [endOfText, ...encode(text)]);
  writeShard(place.path('few_train.bin'), Uint16Array.from(tokens));
  writeFileSync(place.path('text.txt'), Array.from({ length: 30 }, (_, index) => `Zoë 🦜 ${index}`).join('|'));
  place.run([
    'prepro',
    'text',
    'text.txt',
    '--separator',
    '|',
    '--tokenizer',
    'bytes',
    '--out',
    'bytes',
    '--val-fraction',
    '0.3',
  ]);
  writeFileSync(place.path('not.bin'), 'x'.repeat(2000));
});
const inspect = (...args: string[]) => place.run(['prepro', 'inspect', ...args]);

it('gives header, counts and text', () => {
  const { code, stdout } = inspect('few_train.bin');
  expect(stdout).toMatch(
    /^few_train\.bin: 1,0\d\d bytes, sha256 [0-9a-f]{64}\nheader: 20240520, version 1, 1\d tokens\n/,
  );
  expect(stdout).toContain(
    'tokenizer: gpt2, a vocabulary of 50,257; the largest id is 50,256\n<|endoftext|>: 2, before each document or part of a long one\n',
  );
  expect(stdout).toMatch(/tokens 0 to 1\d:\n<\|endoftext\|>Hello world<\|endoftext\|>ROMEO: naïve 🦜\n$/);
  expect(code).toBe(0);
});

it('begins where it is told, and gives JSON', () => {
  expect(inspect('few_train.bin', '--at', '1', '--count', '2').stdout).toMatch(/tokens 1 to 2:\nHello world\n$/);
  const found = JSON.parse(inspect('few_train.bin', '--at', '1', '--count', '2', '--json').stdout);
  expect(found).toMatchObject({ at: 1, ids: [15496, 995], text: 'Hello world', endsOfText: 2, tokenizer: 'gpt2' });
});

it('reads bytes as bytes', () => {
  const { stdout } = inspect('bytes/bytes_val.bin', '--count', '11');
  expect(stdout).toContain('tokenizer: bytes, a vocabulary of 257');
  expect(stdout).toMatch(/\n<\|endoftext\|>Zoë 🦜 \n$/);
});

it.each([
  ['a file that is not there', ['none.bin'], 1, 'the token shard none.bin cannot be opened'],
  ['a file of something else', ['not.bin'], 1, 'not.bin is not a token shard: it begins with'],
  ['a place behind its end', ['few_train.bin', '--at', '99'], 1, /has 1\d tokens, none at 99/],
  [
    'a place that is no number',
    ['few_train.bin', '--at', 'x'],
    2,
    '--at takes a whole number from 0 to 2147483647, not "x"',
  ],
  ['no tokens', ['few_train.bin', '--count', '0'], 2, '--count takes a whole number from 1'],
] as [string, string[], number, string | RegExp][])('refuses %s', (_, args, expected, message) => {
  const { code, stderr } = inspect(...args);
  expect(stderr).toMatch(message);
  expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  expect(code).toBe(expected);
});
