// Data sets: the published text gives llm.c's shards byte for byte; what is there is kept if right and remade if not.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { prepareDataset } from '../../src/data/datasets/prepare.ts';
import { endOfText } from '../../src/tokenizer/tokenizer.ts';
import { workplace } from '../support/cli.ts';
import { tokensIn } from '../support/prepared.ts';

const shared = fileURLToPath(new URL('../../../shared/datasets', import.meta.url));
const folder = process.env.GPT2_DATASETS ?? (existsSync(shared) ? shared : undefined);
const hash = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex');

const place = workplace('each');
afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

describe.skipIf(!folder)('tinyshakespeare (needs the text in GPT2_DATASETS)', () => {
  it("gives llm.c's shards, is kept when right, and remade when damaged", async () => {
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

  it('offline says what else there is', async () => {
    vi.stubEnv('GPT2_DATASETS', '');
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('fetch failed', { cause: new Error('no route') })));
    await expect(prepareDataset('tinyshakespeare', { out: place.path('data') })).rejects.toThrow(
      /cannot download .*: no route; give the file with --from FILE, .*own-source/,
    );
  });

  it('a download that is another text is refused', async () => {
    vi.stubEnv('GPT2_DATASETS', '');
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('a login page')));
    await expect(prepareDataset('tinyshakespeare', { out: place.path('data') })).rejects.toThrow(
      /has sha256 .*, not 86c4e6aa/,
    );
  });
});

describe('own-source', () => {
  it('makes documents of this package, the last tenth for validation', async () => {
    const { dataset } = await prepareDataset('own-source', { out: place.path('data') });
    const [train, val] = dataset.shards.map(({ tokens }) => tokens) as [number, number];
    expect(train).toBeGreaterThan(20_000);
    expect(val).toBeGreaterThan(1000);
    expect(tokensIn(place.path('data', 'own_source_train.bin'))[0]).toBe(endOfText);
  });
});
