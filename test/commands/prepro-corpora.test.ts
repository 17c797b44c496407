// `prepro tinystories` and `prepro fineweb` from files: llm.c's names, order and division; and from a server of our own. `prepro inspect`.
import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { get_encoding } from 'tiktoken';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { fineweb } from '../../src/data/datasets/fineweb.ts';
import { tinystories } from '../../src/data/datasets/tinystories.ts';
import { writeShard } from '../../src/data/shards/shard.ts';
import { encode, endOfText } from '../../src/tokenizer/tokenizer.ts';
import { FileServer } from '../datasets/file-server.ts';
import { withCode, workplace } from '../support/cli.ts';
import { tokensIn } from '../support/prepared.ts';

const place = workplace();
const server = new FileServer();
const endpoint = await server.start();
afterAll(() => server.close());

const tiktoken = get_encoding('r50k_base');
const tokensOf = (texts: string[]) => texts.flatMap((text) => [endOfText, ...tiktoken.encode_ordinary(text)]);
const shard = (...names: string[]) => tokensIn(place.path(...names));
const tales = (count: number, name: string) =>
  Array.from({ length: count }, (_, n) => `Once upon a time ${name} had ${n} apples.\n\nThe end “${n * n}”.`);

describe('tinystories', () => {
  const [train, valid] = [tales(200, 'Tom'), tales(30, 'Sue')];
  const text = (list: string[]) => Buffer.from(`${list.join('\n<|endoftext|>\n')}\n<|endoftext|>\n\n`);

  it('takes roles from the names of files, and white space off the stories', async () => {
    place.file('stories/TinyStories-train.txt', text(train));
    place.file('stories/TinyStories-valid.txt', text(valid));
    const { stdout } = await place.okHere(['prepro', 'tinystories', '--from', 'stories', '--workers', '1']);
    expect(stdout).toMatch(/^230 documents, a vocabulary of 50,257\ndata\/tinystories\/TinyStories_train\.bin: /);
    expect(shard('data', 'tinystories', 'TinyStories_train.bin')).toEqual(tokensOf(train));
    expect(shard('data', 'tinystories', 'TinyStories_val.bin')).toEqual(tokensOf(valid));
  });

  it('is downloaded where there is none', async () => {
    for (const [name, list] of Object.entries({ train, valid })) {
      server.files.set(`/datasets/roneneldan/TinyStories/resolve/main/TinyStoriesV2-GPT4-${name}.txt`, text(list));
    }
    vi.stubEnv('HF_ENDPOINT', endpoint);
    vi.stubEnv('GPT2_DATASETS', '');
    const out = place.path('downloaded');
    const { dataset } = await tinystories.prepare({ out, shardTokens: 2 ** 31 - 1, workers: 1 });
    expect(dataset.documents).toBe(230);
    expect(shard('downloaded', 'TinyStories_train.bin')).toEqual(tokensOf(train));
    expect(readdirSync(place.path('downloaded', 'download')).length).toBe(2);
  });
});

describe('fineweb', () => {
  const page = 'A page of the web, “quoted”. ';
  const texts = Array.from({ length: 500 }, (_, index) => `Posted by user${index}\n${page.repeat(index % 50)}`);
  const lines = (list: string[]) => `${list.map((text) => JSON.stringify({ text, id: 'x' })).join('\n')}\n`;

  it('from lines of JSON: shard 0 is validation, documents go on from shard to shard', async () => {
    place.file('web/000.jsonl', lines(texts.slice(0, 200)));
    place.file('web/001.jsonl.gz', gzipSync(lines(texts.slice(200))));
    const args = ['--version', 'edu', '--from', 'web', '--shard-tokens', '10000', '--workers', '2', '--json'];
    const { stdout } = await place.okHere(['prepro', 'fineweb', ...args]);
    const expected = tokensOf(texts);
    const { folder, shards } = JSON.parse(stdout);
    expect(folder).toBe('data/edu_fineweb10B');
    const files = (shards as { file: string; tokens: number }[]).toSorted((a, b) =>
      a.file.slice(-10).localeCompare(b.file.slice(-10)),
    );
    expect(files.map(({ file }) => file).slice(0, 3)).toEqual([
      'edu_fineweb_val_000000.bin',
      'edu_fineweb_train_000001.bin',
      'edu_fineweb_train_000002.bin',
    ]);
    for (const { tokens } of files.slice(0, -1)) expect(tokens).toBe(10_000);
    expect(files.flatMap(({ file }) => shard(folder, file)).join() === expected.join()).toBe(true);
  });

  it('by content instead, if a share is given', async () => {
    const { stdout } = await place.okHere('prepro fineweb --from web --val-fraction 0.1 --workers 1 --json');
    const files = (JSON.parse(stdout).shards as { file: string }[]).map(({ file }) => file);
    expect(files).toEqual(['fineweb_train.bin', 'fineweb_val.bin']);
  });

  it('as shards that are downloaded, checked, kept, and added to', async () => {
    const repository = '/datasets/kjj0/fineweb10B-gpt2/resolve/main';
    for (const name of ['val_000000', 'train_000001', 'train_000002']) {
      writeShard(place.path('made.bin'), Uint16Array.from(tokensOf(texts.slice(0, 50))));
      server.files.set(`${repository}/fineweb_${name}.bin`, readFileSync(place.path('made.bin')));
    }
    vi.stubEnv('HF_ENDPOINT', `${endpoint}/`);
    const options = { version: '10B', out: place.path('shards'), shardTokens: 1e8 };
    const { dataset, present } = await fineweb.prepare({ ...options, shards: 1 });
    expect(dataset.shards.map(({ file }) => file)).toEqual(['fineweb_val_000000.bin', 'fineweb_train_000001.bin']);
    expect(present).toBe(false);
    const asked = server.requests.length;
    expect((await fineweb.prepare({ ...options, shards: 1 })).present).toBe(true);
    expect(server.requests.length).toBe(asked);
    expect((await fineweb.prepare({ ...options, shards: 2 })).dataset.shards).toHaveLength(3);
    expect(readdirSync(place.path('shards')).sort()).toEqual([
      'dataset.json',
      'fineweb_train_000001.bin',
      'fineweb_train_000002.bin',
      'fineweb_val_000000.bin',
    ]);
    const bytes = readFileSync(place.path('shards/fineweb_train_000001.bin'));
    bytes[3000]! ^= 1;
    place.file('shards/fineweb_train_000001.bin', bytes);
    for (const [other, message] of [
      [
        { version: 'edu', shards: 1 },
        /shards holds a data set of kjj0.*: replace it with --overwrite, or name another/,
      ],
      [{ from: [place.path('web')] }, /shards holds another data set: replace it with --overwrite, or name another/],
      [{ shards: 1 }, /000001\.bin is damaged, its sha256 no longer matches the download/],
    ] as const) {
      await expect(fineweb.prepare({ ...options, ...other })).rejects.toThrow(message);
    }
  });
});

describe('inspect', () => {
  beforeAll(async () => {
    const tokens = ['Hello world', 'ROMEO: naïve 🦜'].flatMap((text) => [endOfText, ...encode(text)]);
    writeShard(place.path('few_train.bin'), Uint16Array.from(tokens));
    place.file('text.txt', Array.from({ length: 30 }, (_, index) => `Zoë 🦜 ${index}`).join('|'));
    await place.here('prepro text text.txt --separator | --tokenizer bytes --out bytes --val-fraction 0.3');
  });
  const inspect = (line: string) => place.here(`prepro inspect ${line}`);

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
    const two = 'few_train.bin --at 1 --count 2';
    expect((await inspect(two)).stdout).toMatch(/tokens 1 to 2:\nHello world\n$/);
    const found = JSON.parse((await inspect(`${two} --json`)).stdout);
    expect(found).toMatchObject({ at: 1, ids: [15496, 995], text: 'Hello world', endsOfText: 2, tokenizer: 'gpt2' });
  });

  it('reads bytes as bytes', async () => {
    const { stdout } = await inspect('bytes/bytes_val.bin --count 11');
    expect(stdout).toContain('tokenizer: bytes, a vocabulary of 257');
    expect(stdout).toMatch(/\n<\|endoftext\|>Zoë 🦜 \n$/);
  });
});
