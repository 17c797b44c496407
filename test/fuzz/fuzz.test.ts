// Thousands of damaged files of each format. One that is neither read nor refused goes to the corpus, with its fix.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { rounds, seed } from '../support/rounds.ts';
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
    const { read, refused } = fuzz(format, { inputs: 3000 * rounds, seed, corpus });
    expect(read).toBeGreaterThan(0);
    expect(refused).toBeGreaterThan(0);
  });

  // Files that once were neither read nor refused. A file's name begins with its format.
  it.each(readdirSync(corpus).filter((file) => file.startsWith(`${name}-`)))('%s', (file) => {
    tryFile(format, readFileSync(join(corpus, file)), file);
  });
});
