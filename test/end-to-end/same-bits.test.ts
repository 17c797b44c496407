// Short runs on every code path, whose figures and final weights are recorded as one hash each: a change that is to change no
// bit changes none of them. Bits depend on the compiler and, on a GPU, on its number of multiprocessors; where those are
// others than at the recording the test is skipped. GPT2_RECORD=1 records anew.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NativeError } from '../../src/errors.ts';
import { Device, type Dtype } from '../../src/native/device.ts';
import type { LibraryKind } from '../../src/native/find-library.ts';
import { loadLibrary } from '../../src/native/library.ts';
import { Workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';

const file = join(import.meta.dirname, '../fixtures/same-bits.json');
const recorded: Record<string, string> = JSON.parse(readFileSync(file, 'utf8'));

/** Recomputing activations changes no bit: both have the hash of the first. */
const shapes = [
  ['one micro-batch', '--total-batch 256'],
  ['one micro-batch', '--total-batch 256 --recompute block'],
  ['two micro-batches', '--total-batch 512'],
] as const;

const run =
  '--order llmc --layers 3 --channels 128 --heads 2 --context 128 --batch 2 --seq 128 --steps 8 --lr 1e-3 --warmup 3 --weight-decay 0.1 --val-every 4 --val-steps 2 --sample-every 0';

const paths = (['cpu avx512', 'cpu avx2', 'cpu portable', 'cuda sm90', 'cuda portable'] as const).flatMap((name) => {
  const [kind, kernels] = name.split(' ') as [LibraryKind, string];
  const dtypes: Dtype[] = kind === 'cpu' ? ['fp32'] : ['fp32', 'tf32', 'bf16'];
  return dtypes.map((dtype) => ({ name: `${name} ${dtype}`, kind, kernels, dtype }));
});

let place: Workplace;
beforeAll(() => {
  place = new Workplace();
  place.data({ train: 20_000, val: 3000, below: 1000, vocabulary: 1000 });
});
afterAll(() => place[Symbol.dispose]());

describe.each(paths)('$name', ({ name, kind, kernels, dtype }) => {
  const reason = missing(kind, kernels);
  for (const [what, flags] of shapes) {
    const key = `${name}, ${what}`;
    it.skipIf(reason !== undefined)(`${flags}${reason === undefined ? '' : `: ${reason}`}`, () => {
      const out = `${kind}-${kernels}-${dtype}-${flags.replaceAll(' ', '')}`;
      const args = `train --data data ${run} ${flags} --device ${kind} --dtype ${dtype} --out ${out}`.split(' ');
      const { code, stderr } = place.run(args, { GPT2_KERNELS: kernels });
      expect(code, stderr).toBe(0);
      const hash = createHash('sha256')
        .update(figuresOf(place.path(out)).join('\n'))
        .digest('hex');
      if (process.env.GPT2_RECORD && !flags.includes('recompute')) {
        recorded[key] = hash;
        recorded[kind] = toolchainOf(kind);
        writeFileSync(file, `${JSON.stringify(recorded, null, 2)}\n`);
      }
      expect(hash).toBe(recorded[key]);
    });
  }
});

/** Why a code path cannot be compared here. */
function missing(kind: LibraryKind, kernels: string): string | undefined {
  const before = process.env.GPT2_KERNELS;
  process.env.GPT2_KERNELS = kernels;
  try {
    loadLibrary(kind);
    Device.open({ kind }).close();
  } catch (error) {
    return error instanceof NativeError || kind === 'cuda' ? (error as Error).message : undefined;
  } finally {
    if (before === undefined) delete process.env.GPT2_KERNELS;
    else process.env.GPT2_KERNELS = before;
  }
  const toolchain = toolchainOf(kind);
  if (process.env.GPT2_RECORD || toolchain === recorded[kind]) return undefined;
  return `recorded with ${recorded[kind]}, here is ${toolchain}`;
}

/** The toolchain: bits depend on it as well as on the source. */
function toolchainOf(kind: LibraryKind): string {
  const version = (command: string, ...args: string[]) => execFileSync(command, args, { encoding: 'utf8' }).trim();
  if (kind === 'cpu') {
    const { glibcVersionRuntime } = (process.report.getReport() as { header: { glibcVersionRuntime?: string } }).header;
    return `${version('c++', '-dumpmachine')} c++ ${version('c++', '-dumpfullversion')}, libc ${glibcVersionRuntime}`;
  }
  using device = Device.open({ kind });
  const { multiprocessors, computeCapability } = device.description as unknown as Record<string, string>;
  const nvcc = /release ([\d.]+)/.exec(version('nvcc', '--version'))?.[1];
  return `nvcc ${nvcc}, compute capability ${computeCapability}, ${multiprocessors} multiprocessors`;
}
