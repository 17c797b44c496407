// Feeds millions of damaged files to the readers of every format (test/fuzz), on all cores. The first that is neither read
// nor rejected in one line ends it: it is written to the current folder, and goes to test/fuzz/corpus with its fix.
//
//   node --import tsx scripts/fuzz.ts [--inputs 2000000] [--seed 1] [--format NAME]
import { fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatsIn } from '../test/fuzz/formats.ts';
import { FuzzFailure, type FuzzResult, fuzz } from '../test/fuzz/fuzz.ts';
import { readFlags } from './flags.ts';

/** The work of one process. */
interface Turn {
  readonly format: string;
  readonly inputs: number;
  readonly seed: number;
}
type Answer =
  | (FuzzResult & { readonly peakKilobytes: number })
  | { readonly failed: string; readonly file: Uint8Array };

if (process.send) process.once('message', (turn) => take(turn as Turn));
else await main();

async function main(): Promise<void> {
  const { inputs, seed, format: wanted } = readFlags({ inputs: 2_000_000, seed: 1, format: '' });
  const names = withFormats((formats) => formats.map(({ name }) => name));
  const chosen = names.filter((name) => wanted === '' || name === wanted);
  if (chosen.length === 0 || !(inputs > 0) || !Number.isSafeInteger(seed)) {
    console.error(`usage: scripts/fuzz.ts [--inputs N] [--seed N] [--format ${names.join('|')}]`);
    process.exit(2);
  }
  const cores = availableParallelism();
  const share = Math.ceil(inputs / chosen.length / cores);
  const begin = performance.now();
  let [total, peak] = [0, 0];
  for (const format of chosen) {
    const turns = Array.from({ length: cores }, (_, core) =>
      inProcess({ format, inputs: share, seed: seed + core * share }),
    );
    let [read, refused] = [0, 0];
    for (const answer of await Promise.all(turns)) {
      if ('failed' in answer) {
        const path = `${format}-${createHash('sha256').update(answer.file).digest('hex').slice(0, 12)}`;
        writeFileSync(path, answer.file);
        console.error(`${answer.failed}\nthe file is ${path}`);
        process.exit(1);
      }
      read += answer.read;
      refused += answer.refused;
      peak = Math.max(peak, answer.peakKilobytes);
    }
    total += read + refused;
    console.log(`${format.padEnd(12)} ${read + refused} files: ${read} read, ${refused} refused`);
  }
  const seconds = (performance.now() - begin) / 1000;
  console.log(
    `${total} files in ${seconds.toFixed(0)} s, ${cores} processes of ${(peak / 1024).toFixed(0)} MiB at most`,
  );
}

function inProcess(turn: Turn): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), [], { serialization: 'advanced' });
    child.once('message', (answer) => resolve(answer as Answer));
    child.once('exit', (code, signal) => reject(new Error(`${JSON.stringify(turn)} ended with ${signal ?? code}`)));
    child.send(turn);
  });
}

function take({ format: name, inputs, seed }: Turn): void {
  const answer = withFormats((formats): Answer => {
    try {
      const result = fuzz(formats.find((format) => format.name === name)!, { inputs, seed });
      return { ...result, peakKilobytes: process.resourceUsage().maxRSS };
    } catch (error) {
      if (!(error instanceof FuzzFailure)) throw error;
      return { failed: `${error.message}\n${(error.cause as Error | undefined)?.stack ?? ''}`, file: error.file };
    }
  });
  process.send!(answer, () => process.disconnect());
}

/** Passes all formats, in a folder that is removed afterwards. */
function withFormats<R>(use: (formats: ReturnType<typeof formatsIn>) => R): R {
  const folder = mkdtempSync(join(tmpdir(), 'gpt2-fuzz-'));
  try {
    return use(formatsIn(folder));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
