// Shards of a user's texts: documents, roles and shards depend on the texts alone, not on the number of workers, the cuts between
// chunks, or kills; and the ids are those of encoding each document whole.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { get_encoding } from 'tiktoken';
import { describe, expect, it } from 'vitest';
import { hashFile } from '../../../src/base/files/regular-file.ts';
import { findShards } from '../../../src/data/datasets/find-shards.ts';
import { blockEnd } from '../../../src/data/datasets/text/parts.ts';
import { Random } from '../../../src/ops/cases/case-numbers.ts';
import { bytes as byteTokenizer, decode, encode, endOfText, gpt2 } from '../../../src/tokenizer/tokenizer.ts';
import { command, workplace } from '../../support/cli.ts';
import { jsonl, ofJsonl, prepared as prepare, tokensIn } from '../../support/prepared.ts';
import { anyText } from '../../tokenizer/texts.ts';

const place = workplace();

/** All tokens of a role, over its shards. */
const tokensOf = (folder: string, role: 'train' | 'val'): number[] => findShards(folder, role).flatMap(tokensIn);

/** The documents of a role, as texts. */
function documentsOf(folder: string, role: 'train' | 'val', end = endOfText, tokenizer = gpt2): string[] {
  const documents: number[][] = [];
  for (const token of tokensOf(folder, role)) {
    if (token === end) documents.push([]);
    else documents.at(-1)!.push(token);
  }
  return documents.map((tokens) => decode(tokens, tokenizer));
}

/** Some megabytes of words that do not repeat, in lines, with a paragraph now and then. */
function story(bytes: number, seed = 1): string {
  const random = new Random(seed);
  const lines: string[] = [];
  for (let length = 0; length < bytes; ) {
    const words = Array.from({ length: 3 + random.uniform() * 12 }, () =>
      random.uniform() < 0.1 ? 'naïve “café”' : Math.floor(random.uniform() * 1e5).toString(36),
    );
    lines.push(words.join(' ') + (random.uniform() < 0.1 ? '.\n' : ''));
    length += lines.at(-1)!.length + 1;
  }
  return lines.join('\n');
}

const hashOf = (folder: string): string[] =>
  readdirSync(folder).map((name) => `${name} ${hashFile(`${folder}/${name}`)}`);

describe('documents', () => {
  it('a file is one; a folder in a non-Latin writing comes back, each text once', async () => {
    const folder = place.path('рассказы');
    const writings = [
      'Жил-был пёс. ',
      'むかしむかし、あるところに。',
      'كان يا ما كان. ',
      'একদা এক দেশে ',
      '옛날 옛적에 ',
    ];
    const texts = Array.from({ length: 40 }, (_, index) => `${index}: ${writings[index % 5]!.repeat(index + 1)}\n`);
    texts.forEach((text, i) => void place.file(`рассказы/${i % 2 ? 'вложенная/' : ''}текст-${i}.txt`, text));
    place.file('рассказы/.hidden', 'not a document');
    place.file('рассказы/blank', ' \n');
    const { dataset } = await prepare([folder], place.path('data', 'рассказы'), { validation: 0.2 });
    expect(dataset.documents).toBe(40);
    expect(dataset.shards.map(({ file }) => file)).toEqual(['рассказы_train.bin', 'рассказы_val.bin']);
    const [train, val] = (['train', 'val'] as const).map((role) => documentsOf(place.path('data', 'рассказы'), role));
    expect(val!.length).toBeGreaterThan(2);
    expect([...train!, ...val!].sort()).toEqual([...texts].sort());
  });

  it('are told by a separator, wherever it lies, and by lines of JSON, packed or not', async () => {
    const texts = Array.from({ length: 1500 }, (_, index) => `${story(3500, index)}\nend ${index}`);
    const separated = place.file('separated.txt', `\ufeff${texts.join('<|endoftext|>')}<|endoftext|>\n`);
    const lines = place.file('lines.jsonl.gz', gzipSync(jsonl(texts).replaceAll('\n', '\n\n')));
    const format = { kind: 'text' as const, separator: '<|endoftext|>' };
    await prepare([separated], place.path('separated'), { format });
    await prepare([lines], place.path('lines'), { format: ofJsonl });
    for (const role of ['train', 'val'] as const) {
      const found = tokensOf(place.path('separated'), role);
      expect(found.length).toBeGreaterThan(10_000);
      expect(isDeepStrictEqual(found, tokensOf(place.path('lines'), role))).toBe(true);
    }
    const found = [...documentsOf(place.path('separated'), 'train'), ...documentsOf(place.path('separated'), 'val')];
    expect(found.sort()).toEqual(texts.sort());
  });

  it('are validation by what they say, not by where they stand', async () => {
    const texts = Array.from({ length: 300 }, (_, index) => `text ${index} ${'word '.repeat(index)}`);
    const format = { kind: 'text' as const, separator: '\n--\n' };
    const turned = texts.toReversed();
    const inOrder = place.file('in-order.txt', texts.join('\n--\n'));
    const reversed = [turned.slice(0, 120), turned.slice(120)].map((some, index) =>
      place.file(`reversed-${index}.txt`, some.join('\n--\n')),
    );
    await prepare([inOrder], place.path('in-order'), { format, validation: 0.1 });
    await prepare(reversed, place.path('reversed'), { format, validation: 0.1, workers: 1 });
    const val = documentsOf(place.path('in-order'), 'val');
    expect(val.length).toBeGreaterThan(10);
    expect(documentsOf(place.path('reversed'), 'val').sort()).toEqual(val.sort());
  });

  it('one that is long has both roles, its ids those of encoding it whole', async () => {
    const text = story(6_000_000);
    await prepare([place.file('book.txt', text)], place.path('book'));
    const [train, val] = (['train', 'val'] as const).map((role) => tokensOf(place.path('book'), role));
    expect(val!.length).toBeGreaterThan(4000);
    // The stretches in their order: wherever one ends in one role, it goes on in the other.
    const all = get_encoding('r50k_base').encode_ordinary(text);
    const streams = { train: train!, val: val! };
    const at = { train: 0, val: 0 };
    let role: 'train' | 'val' = train![1] === all[0] && train![2] === all[1] ? 'train' : 'val';
    at[role] = 1;
    for (let index = 0; index < all.length; index++) {
      if (streams[role][at[role]] === endOfText || at[role] === streams[role].length) {
        role = role === 'train' ? 'val' : 'train';
        expect(at[role] === 0 || streams[role][at[role]] === endOfText).toBe(true);
        at[role]++;
      }
      if (streams[role][at[role]++] !== all[index]) expect.fail(`token ${index} is another`);
    }
    expect(at).toEqual({ train: train!.length, val: val!.length });
  });

  it('a block ends where cutting changes no id', () => {
    fc.assert(
      fc.property(fc.array(anyText, { minLength: 30, maxLength: 60 }), (texts) => {
        const text = texts.join('').repeat(40);
        const whole = Buffer.from(text);
        if (whole.length > 200_000) return;
        const ids: number[] = [];
        for (let start = 0; start < whole.length; ) {
          const end = blockEnd(whole, start, whole.length, false);
          ids.push(...encode(whole.toString('utf8', start, end)));
          start = end;
        }
        expect(ids.join() === get_encoding('r50k_base').encode_ordinary(text).join()).toBe(true);
      }),
      { numRuns: 25 },
    );
  });
});

it('the tokenizer of bytes: has a vocabulary of 257, and any text comes back', async () => {
  const text = Array.from({ length: 50 }, (_, index) => `Γειά ${index} 🦜\n`).join('§');
  const format = { kind: 'text' as const, separator: '§' };
  const source = place.file('bytes.txt', text);
  const { dataset } = await prepare([source], place.path('bytes'), { format, tokenizer: 'bytes' });
  expect(dataset).toMatchObject({ tokenizer: 'bytes', vocabularySize: 257, documents: 50 });
  const found = (['train', 'val'] as const).flatMap((role) =>
    documentsOf(place.path('bytes'), role, 256, byteTokenizer),
  );
  expect(found.sort()).toEqual(text.split('§').sort());
});

describe('shards', () => {
  it('are no larger than asked for, of one size, named in order, and the same at any number of workers', async () => {
    const text = place.file('twelve.txt', story(5_000_000, 2));
    const more = (workers: number) => ({ workers, division: { prefix: 'many', shardTokens: 5e5, validation: 0.05 } });
    const { dataset } = await prepare([text], place.path('workers'), more(2));
    const train = dataset.shards.filter(({ role }) => role === 'train');
    expect(train.length).toBeGreaterThan(3);
    expect(train[0]!.file).toBe('many_train_000001.bin');
    const sizes = train.map(({ tokens }) => tokens);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(5e5);
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
    const before = hashOf(place.path('workers'));
    expect((await prepare([text], place.path('workers'), more(1))).present).toBe(true);
    await prepare([text], place.path('workers-1'), more(1));
    expect(hashOf(place.path('workers-1'))).toEqual(before);
    // Another division of the same: shards of before do not stay beside it.
    const division = { prefix: 'many', shardTokens: 1e8, validation: 0.05 };
    await prepare([text], place.path('workers'), { division, overwrite: true });
    expect(readdirSync(place.path('workers')).sort()).toEqual(['dataset.json', 'many_train.bin', 'many_val.bin']);
  });

  it('of a large text stay what they were', async () => {
    const { dataset } = await prepare([place.file('large.txt', story(9_000_000, 5))], place.path('large'));
    expect(dataset.shards.map(({ tokens, sha256 }) => [tokens, sha256])).toEqual([
      [5_524_368, 'd5ec80a34dd8fe819d73d54d063d8d1563be342bbda49bc022c0994d3e908be9'],
      [36_599, '8e10d026634f2064a47ca0ae89725e8ccf67028b839c736d4d4d87d577f61570'],
    ]);
    // A data set that an earlier version made is found again by this.
    expect(dataset.made?.input).toBe('e161527c9427fcd19cf0fff4db596ecf2a0aa86d02d5be9e04c1fedd883cc60e');
    const list = place.file('list.jsonl', jsonl(Array.from({ length: 3000 }, (_, n) => story(n, n))));
    const { dataset: documents } = await prepare([list], place.path('list'), { format: ofJsonl, validation: 0.02 });
    expect(documents.shards.map(({ tokens, sha256 }) => [tokens, sha256])).toEqual([
      [2_777_652, 'f67bbf8ace25fe10af854343f2b1ee0700d386606b09ebbe6fcd3fd134aa269d'],
      [50_896, '65c9c4da78b4b31329e9759a1c15316d4c8679fd30df886644e8bfd80dac8b52'],
    ]);
  });

  it('of little text, or of much that is alike, still have both roles, and a line says where the share is another', async () => {
    const shares: Record<string, [asked: number, least: number, most: number, said: RegExp | undefined]> = {
      'one short document': [0.01, 0.09, 0.11, /^validation is 1?\d(\.\d)?% of the tokens, not 1%: .*--val-fraction$/],
      'one, half of it': [0.5, 0.45, 0.55, undefined],
      'one, nearly all of it': [0.95, 0.94, 0.96, undefined],
      'four short documents': [0.01, 0.02, 0.05, /^validation is [234](\.\d)?% of the tokens, not 1%: /],
      'a book': [0.01, 0.005, 0.02, undefined],
      'a line over and over': [0.01, 0.005, 0.02, undefined],
    };
    const texts: Record<string, string[]> = {
      'four short documents': [6, 7, 8, 9].map((seed) => story(20_000, seed)),
      'a book': [story(400_000, 10)],
      'a line over and over': [`${'x'.repeat(1023)} `.repeat(3000)],
    };
    for (const [name, [validation, least, most, said]] of Object.entries(shares)) {
      const notices: string[] = [];
      const found = [1, 2].map(async (workers) => {
        const given = texts[name] ?? [story(12_000, 11)];
        const inOrder = workers === 1 ? given : given.toReversed();
        inOrder.forEach((text, index) => void place.file(`${name} ${workers}/${index}.txt`, text));
        const folder = place.path(`${name} ${workers}`);
        const out = join(folder, 'out');
        const { dataset } = await prepare([folder], out, { validation, workers, notice: (line) => notices.push(line) });
        const [train, val] = dataset.shards.map(({ tokens }) => tokens) as [number, number];
        expect(val / (train + val), name).toBeGreaterThan(least);
        expect(val / (train + val), name).toBeLessThan(most);
        return documentsOf(out, 'val').sort();
      });
      expect(await found[0], name).toEqual(await found[1]);
      expect(notices.length, notices[0]).toBe(said ? 2 : 0);
      if (said) expect(notices[0]).toMatch(said);
    }
  });

  it('are told of as they are encoded, not as they are read', async () => {
    const text = place.file('told.txt.gz', gzipSync(story(14_000_000, 12), { level: 1 }));
    const out = place.path('told');
    const { size } = statSync(text);
    const told: { done: number; parts: number }[] = [];
    const onProgress = (done: number, total: number) => {
      expect(total).toBe(size);
      told.push({ done, parts: readdirSync(join(out, '.prepro')).filter((name) => /^part-\d+$/.test(name)).length });
    };
    await prepare([text], out, { workers: 1, onProgress });
    // A part is of 4 MiB, which with what is read ahead is less than half of the file.
    for (const { done, parts } of told) expect(done).toBeLessThanOrEqual((parts * size) / 2);
    expect(told[0]!.done).toBe(0);
    expect(told.at(-1)!.done).toBe(size);
    expect(new Set(told.map(({ done }) => done)).size).toBeGreaterThan(3);
  });

  it('are the same after kills at any moment, and work that was done is kept', async () => {
    const text = place.file('killed.txt', story(24_000_000, 3));
    await prepare([text], place.path('whole'), { division: { prefix: 'kill', shardTokens: 1e6, validation: 0.01 } });
    // As a kill leaves it that comes while the last file is written.
    mkdirSync(place.path('kill', '.prepro'), { recursive: true });
    place.file('kill/dataset.json.4711.tmp', '{');
    const args = ['text', text, '--out', place.path('kill'), '--shard-tokens', '1000000', '--workers', '2', '--json'];
    const random = new Random(Date.now());
    const partTimes = () => {
      const folder = place.path('kill', '.prepro');
      const parts = existsSync(folder) ? readdirSync(folder).filter((name) => /^part-\d+$/.test(name)) : [];
      return new Map(parts.map((name) => [name, statSync(join(folder, name)).mtimeMs]));
    };
    for (let kills = 0; kills < 6; kills++) {
      const before = partTimes();
      const child = spawn(process.execPath, [...command, 'prepro', ...args], { stdio: 'ignore' });
      const timer = setTimeout(() => child.kill('SIGKILL'), 600 + random.uniform() * 2000);
      await new Promise((resolve) => child.on('exit', resolve));
      clearTimeout(timer);
      if (existsSync(place.path('kill', 'dataset.json'))) break;
      const after = partTimes();
      for (const [name, time] of before) expect(after.get(name), `${name} was made again`).toBe(time);
      if (existsSync(place.path('kill'))) {
        expect(() => findShards(place.path('kill'), 'train')).toThrow(/is not finished/);
      }
    }
    place.ok(['prepro', ...args]);
    expect(hashOf(place.path('kill'))).toEqual(hashOf(place.path('whole')));
  });

  it('of another text or other options are replaced only if that is asked for', async () => {
    const one = place.file('one.txt', story(300_000, 20));
    const two = place.file('two.txt', story(300_000, 21));
    const out = place.path('standing');
    await prepare([one], out);
    const before = hashOf(out);
    for (const [paths, more, what] of [
      [[two], {}, 'a data set made of another text'],
      [[one, two], {}, 'a data set made of another text'],
      [[one], { validation: 0.2 }, 'a data set made with other options'],
      [[one], { tokenizer: 'bytes' }, 'a data set of the tokenizer gpt2'],
    ] as const) {
      await expect(prepare([...paths], out, more)).rejects.toThrow(
        `${out} holds ${what}: replace it with --overwrite, or name another folder with --out`,
      );
      expect(hashOf(out)).toEqual(before);
    }
    expect((await prepare([one], out)).present).toBe(true);
    // Damage is mended: what was asked for is what stood there.
    writeFileSync(join(out, 'standing_val.bin'), 'damaged');
    expect((await prepare([one], out)).present).toBe(false);
    expect(hashOf(out)).toEqual(before);
    await prepare([two], out, { overwrite: true });
    await prepare([two], place.path('fresh'), { division: { prefix: 'standing', shardTokens: 1e8, validation: 0.01 } });
    expect(hashOf(out)).toEqual(hashOf(place.path('fresh')));
    expect((await prepare([two], out, { overwrite: true })).present).toBe(true);
  });

  it("of no known making are not replaced either, and those of another's name only with dataset.json", async () => {
    const text = place.file('known.txt', story(300_000, 22));
    const out = place.path('known');
    await prepare([text], out);
    const before = hashOf(out);
    const settings = { division: { prefix: 'renamed', shardTokens: 1e8, validation: 0.01 } };
    await prepare([text], out, { ...settings, overwrite: true });
    expect(readdirSync(out)).toEqual(['dataset.json', 'renamed_train.bin', 'renamed_val.bin']);
    await prepare([text], out, { overwrite: true });
    expect(hashOf(out)).toEqual(before);
    rmSync(join(out, 'dataset.json'));
    await expect(prepare([text], out)).rejects.toThrow('holds another data set: replace it with --overwrite');
    await expect(prepare([text], out, { ...settings, overwrite: true })).rejects.toThrow(
      'holds known_train.bin, which belongs to another data set: name another folder with --out',
    );
    writeFileSync(join(out, 'dataset.json'), '{');
    await expect(prepare([text], out)).rejects.toThrow('holds another data set: replace it with --overwrite');
    await prepare([text], out, { overwrite: true });
    expect(hashOf(out)).toEqual(before);
  });

  it('a text that changed between a kill and the next run is encoded as it is now', async () => {
    // Long enough for a first part that is complete before the last one fails.
    const damaged = Buffer.concat([Buffer.from(story(9_000_000, 4)), Buffer.of(0x20, 0xff)]);
    const text = place.file('changing.txt', damaged);
    const out = place.path('changing');
    await expect(prepare([text], out)).rejects.toThrow(/changing\.txt is not UTF-8 at byte \d+ \(0x/);
    expect(readdirSync(place.path('changing', '.prepro')).some((name) => !name.endsWith('.tmp'))).toBe(true);
    const now = story(9_000_000, 4).replace('a', 'b');
    writeFileSync(text, now);
    await prepare([text], out);
    await prepare([text], place.path('anew'), { division: { prefix: 'changing', shardTokens: 1e8, validation: 0.01 } });
    expect(hashOf(place.path('anew'))).toEqual(hashOf(out));
  });
});
