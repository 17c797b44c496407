// Feeds damaged files to a format's reader. It may read them or refuse them in one line; anything else is a defect.
import { createHash } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../../src/base/errors.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import type { Format } from './formats.ts';
import { mutate } from './mutate.ts';

/** More than this for a file of a few KiB is a defect of its own. */
const slowMilliseconds = 2000;

export interface FuzzResult {
  readonly read: number;
  readonly refused: number;
}

/** @throws Error with the first file that fails, which goes to `corpus`; the same seed and count give the same files */
export function fuzz(
  format: Format,
  { inputs, seed, corpus }: { inputs: number; seed: number; corpus: string },
): FuzzResult {
  let read = 0;
  for (let index = 0; index < inputs; index++) {
    const file = mutate(new Random(seed + index), format.examples);
    try {
      if (tryFile(format, file, `input ${seed + index}`)) read++;
    } catch (error) {
      writeFileSync(
        join(corpus, `${format.name}-${createHash('sha256').update(file).digest('hex').slice(0, 12)}`),
        file,
      );
      throw error;
    }
  }
  rmSync(format.path, { force: true });
  return { read, refused: inputs - read };
}

/** Whether the file was read. @throws Error if it was not refused in one line either */
export function tryFile(format: Format, file: Uint8Array, what: string): boolean {
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
