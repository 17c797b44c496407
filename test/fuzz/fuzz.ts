// Feeds damaged files to a format's reader. It may read them or refuse them in one line; anything else is a defect.
import { rmSync, writeFileSync } from 'node:fs';
import { Gpt2Error } from '../../src/errors.ts';
import { Random } from '../../src/op-cases/numbers.ts';
import type { Format } from './formats.ts';
import { mutate } from './mutate.ts';

/** More than this for a file of a few KiB is a defect of its own. */
const slowMilliseconds = 2000;

export interface FuzzResult {
  readonly read: number;
  readonly refused: number;
}

/** A file that was neither read nor refused; `file` brings it back. */
export class FuzzFailure extends Error {
  readonly file: Uint8Array;

  constructor(message: string, file: Uint8Array, cause?: unknown) {
    super(message, { cause });
    this.file = file;
  }
}

/** @throws FuzzFailure with the first file that fails; the same seed and count give the same files */
export function fuzz(format: Format, { inputs, seed }: { inputs: number; seed: number }): FuzzResult {
  let read = 0;
  for (let index = 0; index < inputs; index++) {
    const file = mutate(new Random(seed + index), format.examples);
    if (tryFile(format, file, `input ${seed + index}`)) read++;
  }
  rmSync(format.path, { force: true });
  return { read, refused: inputs - read };
}

/** Whether the file was read. @throws FuzzFailure if it was not refused in one line either */
export function tryFile(format: Format, file: Uint8Array, what: string): boolean {
  writeFileSync(format.path, file);
  const begin = performance.now();
  const fail = (reason: string, cause?: unknown): never => {
    throw new FuzzFailure(`${format.name}, ${what}: ${reason}`, file, cause);
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
