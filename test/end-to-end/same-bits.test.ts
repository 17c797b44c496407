// Short runs on every code path, whose figures and final weights are recorded as one hash each: a change that is to change no
// bit changes none of them. Bits depend on the compiler and, on a GPU, on its number of multiprocessors; where those are
// others than at the recording the test is skipped. GPT2_RECORD=1 records anew.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { NativeError } from '../../src/base/errors.ts';
import { Device, type Dtype } from '../../src/native/device.ts';
import type { LibraryKind } from '../../src/native/find-library.ts';
import { loadLibrary } from '../../src/native/library.ts';
import { workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';

const file = join(import.meta.dirname, '../fixtures/same-bits.json');
const recorded: Record<string, string> = JSON.parse(readFileSync(file, 'utf8'));

type Shape = readonly [what: string, flags: string];
/** Recomputing activations changes no bit: both have the hash of the first. */
const shapes: readonly Shape[] = [
  ['one micro-batch', '--total-batch 256'],
  ['one micro-batch', '--total-batch 256 --recompute block'],
  ['two micro-batches', '--total-batch 512'],
];
const ranks: readonly Shape[] = [0, 1].map((n) => [`two ranks, ZeRO ${n}`, `--total-batch 512 --gpus 2 --zero ${n}`]);
/** With the recipe's rates of the recording. */
const modern: readonly Shape[] = [
  [
    'modern',
    '--total-batch 256 --recipe modern --embedding-lr 0.0459279 --head-lr 0.000478416 --muon-weight-decay 0.025',
  ],
];

const run =
  '--threads 2 --order llmc --layers 3 --channels 128 --heads 2 --context 128 --batch 2 --seq 128 --steps 8 --lr 1e-3 --warmup 3 --weight-decay 0.1 --val-every 4 --val-steps 2 --sample-every 0';

const shapesOf: Record<LibraryKind, Partial<Record<Dtype, readonly Shape[]>>> = {
  cpu: { fp32: [...shapes, ...modern, ...ranks], bf16: shapes.slice(0, 2), fp8: shapes.slice(0, 1) },
  cuda: { fp32: shapes, tf32: shapes, bf16: [...shapes, ...modern], fp8: shapes.slice(0, 1) },
};
const paths = ['cpu avx512', 'cpu avx2', 'cpu portable', 'cuda sm90', 'cuda portable'].flatMap((name) => {
  const [kind, kernels] = name.split(' ') as [LibraryKind, string];
  return Object.entries(shapesOf[kind]).map(([dtype, shapes]) => ({
    ...{ name: `${name} ${dtype}`, kind, kernels, dtype, shapes },
  }));
});

const place = workplace();
/** Trains in this process, or ranks in others. */
const start = async (line: string, env: Record<string, string>) =>
  /--gpus|ranks$/.test(line) ? place.ok(line, env) : place.okHere(line, env);

beforeAll(async () => {
  place.data({ train: 20_000, val: 3000, below: 1000, vocabulary: 1000 });
  place.file('letters.txt', 'A few letters, and again: the same words.\n'.repeat(300));
  await place.okHere('prepro text letters.txt --tokenizer char --out letters');
});

describe.each(paths)('$name', ({ name, kind, kernels, dtype, shapes }) => {
  const missingPath = missing(kind, kernels);
  for (const [what, flags] of shapes) {
    const key = `${name}, ${what}`;
    const reason = missingPath ?? (process.env.GPT2_RECORD || recorded[key] ? undefined : 'not recorded');
    it.skipIf(reason !== undefined)(`${flags}${reason === undefined ? '' : `: ${reason}`}`, async () => {
      const out = `${kind}-${kernels}-${dtype}-${flags.replaceAll(' ', '')}`;
      // The recipe chooses its schedule; the hashes of others were recorded with a constant rate.
      const schedule = what === 'modern' ? '' : '--schedule constant ';
      const device = `--device ${kind} --dtype ${dtype}`;
      await start(`train --data data ${run} ${schedule}${flags} ${device} --out ${out}`, { GPT2_KERNELS: kernels });
      if (!flags.includes('recompute')) record(key, kind, hashOf(place.path(out)));
      expect(hashOf(place.path(out))).toBe(recorded[key]);
    });
  }
});

/** Run folders that an earlier version left after 4 of 8 steps. */
const halfDone = {
  gpt2: '--data data',
  modern: '--data data --recipe modern --total-batch 64',
  fp8: '--data data --dtype fp8',
  ranks: '--data data --gpus 2 --total-batch 128',
  characters: '--data letters',
};

describe.each(Object.entries(halfDone))('a run folder of an earlier version, %s', (name, flags) => {
  const reason = missing('cpu', 'avx512');
  const folder = join(import.meta.dirname, '../fixtures/half-done', name);
  const key = `half done, ${name}`;
  it.skipIf(reason !== undefined)('continues as if it had not been stopped', async () => {
    const run = (line: string) => start(line, { GPT2_KERNELS: 'avx512' });
    if (process.env.GPT2_RECORD) {
      const sizes =
        '--layers 1 --channels 32 --heads 2 --context 32 --batch 2 --seq 32 --steps 8 --lr 1e-3 --val-every 2';
      const whole = `train ${flags} ${sizes} --sample-every 0 --save-every 0 --device cpu --threads 1`;
      await run(`${whole} --out whole-${name}`);
      await run(`${whole} --out half-${name} --stop-after 4`);
      cpSync(place.path(`half-${name}`), folder, { recursive: true });
      record(key, 'cpu', hashOf(place.path(`whole-${name}`)));
    }
    cpSync(folder, place.path('resumed', name), { recursive: true });
    await run(`train --resume --out resumed/${name}`);
    expect(hashOf(place.path('resumed', name))).toBe(recorded[key]);
  });
});

const hashOf = (out: string): string => createHash('sha256').update(figuresOf(out).join('\n')).digest('hex');

function record(key: string, kind: LibraryKind, hash: string): void {
  if (!process.env.GPT2_RECORD) return;
  recorded[key] = hash;
  recorded[kind] = toolchainOf(kind);
  writeFileSync(file, `${JSON.stringify(recorded, null, 2)}\n`);
}

/** Why a code path cannot be compared here. */
function missing(kind: LibraryKind, kernels: string): string | undefined {
  vi.stubEnv('GPT2_KERNELS', kernels);
  try {
    loadLibrary(kind);
    Device.open({ kind }).close();
  } catch (error) {
    return error instanceof NativeError || kind === 'cuda' ? (error as Error).message : undefined;
  } finally {
    vi.unstubAllEnvs();
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
