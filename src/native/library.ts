// Finds one of the two native libraries, loads it through koffi and checks its ABI version. The only file that knows
// koffi: another FFI would replace it here. What the functions mean is in cuda/gpt2.h; device.ts gives them an owner.
import { existsSync } from 'node:fs';
import os from 'node:os';
import { join, resolve } from 'node:path';
import koffi, { type LibraryHandle } from 'koffi';
import { Gpt2Error } from '../errors.ts';
import { packageRoot } from '../package-root.ts';
import { abiVersion, type Bindings, signatures } from './bindings.generated.ts';
import { replaceFailedStreamsAtExit } from './standard-streams.ts';

// Called here because importing koffi makes it necessary.
replaceFailedStreamsAtExit();

/** The library's file name without path: libgpt2-cpu.so or libgpt2-cuda.so. */
export type LibraryKind = 'cpu' | 'cuda';

const limits: Record<string, readonly [number, number]> = {
  int: [-(2 ** 31), 2 ** 31 - 1],
  int32_t: [-(2 ** 31), 2 ** 31 - 1],
  uint32_t: [0, 2 ** 32 - 1],
  int64_t: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

const loaded = new Map<string, Bindings>();

/** Path of the library: GPT2_LIBRARY if it is set, else build/ of this package. */
export function libraryPath(kind: LibraryKind): string {
  const given = process.env.GPT2_LIBRARY;
  if (given) return resolve(given);
  return join(packageRoot, 'build', `libgpt2-${kind}.so`);
}

/** What to do about a library that is not what it should be. */
const mendOf = (kind: LibraryKind): string =>
  process.env.GPT2_LIBRARY ? 'GPT2_LIBRARY names it: correct or unset it' : `run \`npm run build:${kind}\``;

/**
 * Loads a library once per process.
 * @throws Gpt2Error if it is not built, cannot be loaded, speaks another ABI version, or lacks functions
 */
export function loadLibrary(kind: LibraryKind): Bindings {
  const path = libraryPath(kind);
  const known = loaded.get(path);
  if (known) return known;
  const mend = mendOf(kind);
  if (!existsSync(path)) {
    const what = process.env.GPT2_LIBRARY ? '' : `the ${kind} library is not built: `;
    throw new Gpt2Error(`${what}there is no ${path}; ${mend}`);
  }
  const library = open(path, mend);
  checkVersion(library, path, mend);
  let bindings: Bindings;
  try {
    bindings = bind(library);
  } catch (cause) {
    throw new Gpt2Error(`${path} lacks functions of gpt2.ts: ${(cause as Error).message}; ${mend}`, { cause });
  }
  loaded.set(path, bindings);
  return bindings;
}

/** Of flock(2): alone, and without waiting. */
const lockAlone = 2 | 4;

/**
 * Locks an open file for this process alone, as long as it is open here; the system lets go of it however the process ends.
 * @returns false if another process has it; true also where files cannot be locked
 */
export function lockFile(file: number): boolean {
  let flock: (file: number, operation: number) => number;
  setStackSize();
  try {
    const library = koffi.load(process.platform === 'darwin' ? 'libSystem.dylib' : 'libc.so.6');
    flock = library.func('flock', 'int', ['int', 'int']) as typeof flock;
  } catch {
    return true;
  }
  const wouldBlock = os.constants.errno.EWOULDBLOCK;
  return flock(file, lockAlone) === 0 || koffi.errno() !== wouldBlock;
}

/** `bytes` of native memory from an address on, as the host sees it. Not to be used after the memory is freed. */
export const viewMemory = (address: bigint, bytes: number): ArrayBuffer => koffi.view(address, bytes);

let isStackSet = false;

/**
 * koffi runs native code on a stack of its own, 2 MiB by default; a deep OpenMP or driver call must not overflow it. It can
 * be set only before the first library of the process is loaded.
 */
function setStackSize(): void {
  if (isStackSet) return;
  isStackSet = true;
  try {
    koffi.config({ sync_stack_size: 8 << 20, async_stack_size: 8 << 20 });
  } catch {
    // Another user of koffi in this process was first; its setting holds.
  }
}

function open(path: string, mend: string): LibraryHandle {
  setStackSize();
  // GNU OpenMP's threads spin about a millisecond for the next loop before they sleep, and with other work on the cores
  // they spin against it: the tiny model's steps took about 7 times as long beside a busy test suite. It reads this when loaded.
  if (!process.env.OMP_WAIT_POLICY) process.env.GOMP_SPINCOUNT ??= '2000';
  try {
    return koffi.load(path);
  } catch (cause) {
    throw new Gpt2Error(`${path} cannot be loaded: ${(cause as Error).message}; ${mend}`, { cause });
  }
}

/** Before anything else is bound: a library of another version may lack functions, or take other arguments. */
function checkVersion(library: LibraryHandle, path: string, mend: string): void {
  let version: number;
  try {
    version = library.func(signatures.abiVersion.symbol, 'int', [])() as number;
  } catch (cause) {
    throw new Gpt2Error(`${path} is not a library of gpt2.ts: ${(cause as Error).message}; ${mend}`, { cause });
  }
  if (version !== abiVersion) {
    throw new Gpt2Error(`${path} has ABI version ${version}, this program needs ${abiVersion}; ${mend}`);
  }
}

function bind(library: LibraryHandle): Bindings {
  const bindings: Record<string, unknown> = {};
  for (const [name, { symbol, result, types, names }] of Object.entries(signatures)) {
    const call = library.func(symbol, result, types) as (...values: unknown[]) => unknown;
    // koffi turns 3.7 into 3 and 2**40 into 0 without a word, so whole numbers and their range are checked here.
    const integers = types.flatMap((type, index) => (limits[type] ? [{ index, range: limits[type] }] : []));
    bindings[name] = (args: Record<string, unknown> = {}) => {
      const values = names.map((key) => args[key]);
      for (const { index, range } of integers) {
        const value = values[index] as number;
        if (!Number.isInteger(value) || value < range[0] || value > range[1]) {
          throw new RangeError(`${symbol}: ${names[index]} = ${value} is not a ${types[index]}`);
        }
      }
      return call(...values);
    };
  }
  return bindings as unknown as Bindings;
}
