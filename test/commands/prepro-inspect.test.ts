import { beforeAll, expect, it } from 'vitest';
import { writeShard } from '../../src/data/shards/shard.ts';
import { encode, endOfText } from '../../src/tokenizer/tokenizer.ts';
import { withCode, workplace } from '../support/cli.ts';

const place = workplace();
beforeAll(async () => {
  const tokens = ['Hello world', 'ROMEO: naïve 🦜'].flatMap((text) => [endOfText, ...encode(text)]);
  writeShard(place.path('few_train.bin'), Uint16Array.from(tokens));
  place.file('text.txt', Array.from({ length: 30 }, (_, index) => `Zoë 🦜 ${index}`).join('|'));
  await place.here('prepro text text.txt --separator | --tokenizer bytes --out bytes --val-fraction 0.3');
});
const inspect = (...args: string[]) => place.here(['prepro', 'inspect', ...args]);

it('gives header, counts and text', async () => {
  const { stdout } = withCode(0, await inspect('few_train.bin'));
  expect(stdout).toMatch(/^few_train\.bin: 1,0\d\d bytes, sha256 [0-9a-f]{64}\nheader: 20240520, version 1, 1\d t/);
  expect(stdout).toContain(
    'tokenizer: gpt2, a vocabulary of 50,257; the largest id is 50,256\n<|endoftext|>: 2, before each document or part of a long one\n',
  );
  expect(stdout).toMatch(/tokens 0 to 1\d:\n<\|endoftext\|>Hello world<\|endoftext\|>ROMEO: naïve 🦜\n$/);
});

it('characters have no end of text', async () => {
  await place.here('prepro text text.txt --tokenizer char --out chars --val-fraction 0.3');
  expect((await inspect('chars/chars_val.bin')).stdout).toContain('\n<|endoftext|>: none\ntokens 0 to ');
});

it('begins where it is told, and gives JSON', async () => {
  expect((await inspect('few_train.bin', '--at', '1', '--count', '2')).stdout).toMatch(
    /tokens 1 to 2:\nHello world\n$/,
  );
  const found = JSON.parse((await inspect('few_train.bin', '--at', '1', '--count', '2', '--json')).stdout);
  expect(found).toMatchObject({ at: 1, ids: [15496, 995], text: 'Hello world', endsOfText: 2, tokenizer: 'gpt2' });
});

it('reads bytes as bytes', async () => {
  const { stdout } = await inspect('bytes/bytes_val.bin', '--count', '11');
  expect(stdout).toContain('tokenizer: bytes, a vocabulary of 257');
  expect(stdout).toMatch(/\n<\|endoftext\|>Zoë 🦜 \n$/);
});
