// An export that ends at any of its calls to the file system leaves a whole model under its name, or none, and can be made again.
import fs, { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { type ExportFormat, exportModel, resolveWeights } from '../../src/index.ts';
import { deadProcess, writtenModel } from '../checkpoint/trained-model.ts';
import { workplace } from '../support/cli.ts';

let model: string;
const models = workplace();
const place = workplace('each');
beforeAll(() => {
  model = writtenModel(models.path('run')).path;
});

/** Runs `work` as if the process were killed at its call of number `last` that changes files. Says whether it got so far. */
async function killedAt(last: number, work: () => Promise<unknown>): Promise<boolean> {
  let calls = 0;
  const die = () => {
    throw new Error('killed');
  };
  const names = 'mkdirSync writeFileSync writeSync copyFileSync fsyncSync renameSync rmdirSync rmSync'.split(' ');
  for (const name of names as ['writeSync']) {
    const real = fs[name] as (...args: unknown[]) => unknown;
    vi.spyOn(fs, name).mockImplementation((...args: unknown[]) => {
      if (++calls < last) return real(...args) as number;
      // Half of the text is written; the process that would have removed it is dead, too.
      if (calls === last && name === 'writeSync') {
        const bytes = args[1] as Uint8Array;
        real(args[0], bytes.subarray(0, bytes.length / 2));
      }
      if (calls === last && ['writeFileSync', 'copyFileSync'].includes(name)) {
        real(...args);
        const path = String(args[name.startsWith('copy') ? 1 : 0]);
        fs.truncateSync(path, fs.statSync(path).size / 2);
      }
      return die();
    });
  }
  syncBuiltinESMExports();
  try {
    await work();
  } catch (error) {
    if (calls < last) throw error;
  } finally {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  }
  return calls >= last;
}

const foreign = ['notes.txt', 'out.bak.tmp', 'out.12.tmp.txt', 'my-out.12.tmp'];

describe.each<[what: string, format: ExportFormat, isThere?: boolean]>([
  ['a new folder of transformers', 'hf'],
  ['an empty folder that is there', 'hf', true],
  ["llm.c's file", 'llmc'],
  ['a GGUF file', 'gguf'],
])('%s', (_, format, isThere = false) => {
  const make = (out: string) => exportModel({ model, format, out });
  // Besides files only the empty folder of an export that was killed at the very end may be there.
  const files = (out: string) =>
    readdirSync(out, { withFileTypes: true }).filter(
      (entry) => entry.isFile() || readdirSync(join(out, entry.name)).length > 0,
    );
  const content = (out: string) =>
    format === 'hf'
      ? Object.fromEntries(files(out).map(({ name }) => [name, readFileSync(join(out, name), 'base64')]))
      : readFileSync(out, 'base64');

  it('is whole or absent wherever its export is killed, and the next export succeeds', async () => {
    const whole = place.path('whole');
    await make(whole);
    let ended = 0;
    for (let last = 1; ; last++) {
      const folder = place.path(String(last));
      const out = join(folder, 'out');
      mkdirSync(isThere ? out : folder, { recursive: true });
      for (const name of foreign) writeFileSync(join(folder, name), name);
      const isKilled = await killedAt(last, () => make(out));
      const usable = format === 'hf' ? join(out, 'model.safetensors') : out;
      if (existsSync(usable)) {
        ended++;
        expect(content(out), `killed at call ${last}`).toEqual(content(whole));
        if (format !== 'gguf') await resolveWeights(out);
        await expect(make(out)).rejects.toThrow(/out already exists/);
      } else {
        if (!isThere) expect(readdirSync(folder)).not.toContain('out');
        await make(out);
        expect(content(out), `after a kill at call ${last}`).toEqual(content(whole));
        expect(readdirSync(folder).sort()).toEqual([...foreign, 'out'].sort());
      }
      for (const name of foreign) expect(readFileSync(join(folder, name), 'utf8')).toBe(name);
      if (!isKilled) break;
    }
    expect(ended).toBeGreaterThan(0);
  });
});

it.each(['hf', 'llmc', 'gguf'] as const)(
  '%s: clears what a dead process left, not what a living one is writing',
  async (format) => {
    const name = (writer: number) => `out.${writer}.tmp`;
    for (const writer of [deadProcess, process.ppid]) mkdirSync(place.path(name(writer)));
    await exportModel({ model, format, out: place.path('out') });
    expect(readdirSync(place.folder).sort()).toEqual(['out', name(process.ppid)]);
  },
);

it('refuses a folder that holds anything else, and leaves it as it is', async () => {
  const other = place.path('other');
  mkdirSync(join(other, `other.${deadProcess}.tmp`), { recursive: true });
  writeFileSync(join(other, 'config.json'), 'mine');
  writeFileSync(join(other, 'notes.txt'), 'mine');
  await expect(exportModel({ model, format: 'hf', out: other })).rejects.toThrow(/other already exists/);
  expect(readFileSync(join(other, 'config.json'), 'utf8')).toBe('mine');
});
