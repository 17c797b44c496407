// A few thousand damaged files of each format; `node --import tsx scripts/fuzz.ts` makes millions.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { formatsIn } from './formats.ts';
import { fuzz, tryFile } from './fuzz.ts';

const folder = mkdtempSync(join(tmpdir(), 'gpt2-fuzz-'));
const corpus = join(import.meta.dirname, 'corpus');
afterAll(() => rmSync(folder, { recursive: true }));

describe.each(formatsIn(folder).map((format) => ({ name: format.name, format })))('$name', ({ name, format }) => {
  it('a whole file is read', () => {
    for (const example of format.examples) expect(tryFile(format, example, 'an example')).toBe(true);
  });

  it('a damaged file is read, or refused in one line', () => {
    const { read, refused } = fuzz(format, { inputs: 3000, seed: 1 });
    expect(read).toBeGreaterThan(0);
    expect(refused).toBeGreaterThan(0);
  });

  // What once was neither. A file's name begins with its format.
  it.each(readdirSync(corpus).filter((file) => file.startsWith(`${name}-`)))('%s', (file) => {
    tryFile(format, readFileSync(join(corpus, file)), file);
  });
});
