// Thousands of damaged files of each format. A reader reads a file or refuses it in one line. A file with which it does anything else
// goes to the corpus, with the fix.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { workplace } from '../support/cli.ts';
import { rounds, seed } from '../support/rounds.ts';
import { type Format, formatsIn } from './formats.ts';
import { mutate } from './mutate.ts';

const place = workplace();
const corpus = join(import.meta.dirname, 'corpus');
/** More than this for a file of a few KiB is a defect, too. */
const slowMilliseconds = 2000;

/** Whether the file was read. @throws Error if it was not refused in one line either */
function tryFile(format: Format, file: Uint8Array, what: string): boolean {
  writeFileSync(format.path, file);
  const begin = performance.now();
  const fail = (reason: string, cause?: unknown): never => {
    throw new Error(`${format.name}, ${what}: ${reason}`, { cause });
  };
  let isRead = false;
  try {
    format.use();
    isRead = true;
  } catch (error) {
    if (!(error instanceof Gpt2Error)) return fail(`${error} is no Gpt2Error`, error);
    if (/[\p{Cc}\u2028\u2029]/u.test(error.message)) {
      return fail(`its message is not one plain line: ${JSON.stringify(error.message)}`);
    }
    if (error.message.length > 2000) return fail(`its message has ${error.message.length} characters`);
  }
  const milliseconds = performance.now() - begin;
  if (milliseconds > slowMilliseconds) return fail(`it took ${milliseconds.toFixed(0)} ms`);
  return isRead;
}

describe.each(formatsIn(place.folder).map((format) => ({ name: format.name, format })))('$name', ({ name, format }) => {
  it('a whole file is read', () => {
    for (const example of format.examples) expect(tryFile(format, example, 'an example')).toBe(true);
  });

  it('a damaged file is read, or refused in one line', () => {
    const inputs = 3000 * rounds;
    let read = 0;
    for (let input = seed; input < seed + inputs; input++) {
      const file = mutate(new Random(input), format.examples);
      try {
        if (tryFile(format, file, `input ${input}`)) read++;
      } catch (error) {
        const hash = createHash('sha256').update(file).digest('hex');
        writeFileSync(join(corpus, `${name}-${hash.slice(0, 12)}`), file);
        throw error;
      }
    }
    expect(read).toBeGreaterThan(0);
    expect(read).toBeLessThan(inputs);
  });

  // Files that once were neither read nor refused. A file's name begins with its format.
  it.each(readdirSync(corpus).filter((file) => file.startsWith(`${name}-`)))('%s', (file) => {
    tryFile(format, readFileSync(join(corpus, file)), file);
  });
});
