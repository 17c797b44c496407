// Loads one of the two native libraries and checks its ABI version. The functions are documented in cuda/gpt2.h.
import { existsSync } from 'node:fs';
import type { LibraryHandle } from 'koffi';
import { explained, Gpt2Error, gpt2Error } from '../base/errors.ts';
import { isInstalled } from '../base/wording.ts';
import { abiVersion, type Bindings, signatures } from './bindings.generated.ts';
import { type LibraryKind, libraryFix, libraryPath } from './find-library.ts';
import { loadShared } from './koffi.ts';

const limits: Record<string, readonly [number, number]> = {
  int: [-(2 ** 31), 2 ** 31 - 1],
  int32_t: [-(2 ** 31), 2 ** 31 - 1],
  uint32_t: [0, 2 ** 32 - 1],
  int64_t: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

const loaded = new Map<string, Bindings>();

/**
 * Loads a native library, once per process.
 * @throws Gpt2Error if the library is missing, cannot be loaded, has another ABI version, or lacks functions
 */
export function loadLibrary(kind: LibraryKind): Bindings {
  const path = libraryPath(kind);
  const known = loaded.get(path);
  if (known) return known;
  const isNamed = Boolean(process.env.GPT2_LIBRARY);
  const fix = isNamed ? 'GPT2_LIBRARY names it: correct or unset it' : libraryFix(kind);
  if (!existsSync(path)) {
    throw gpt2Error`${isNamed ? '' : `the ${kind} library is not ${isInstalled ? 'installed' : 'built'}: `}there is no ${path}; ${fix}`;
  }
  const library = explained(`${path} cannot be loaded`, fix, () => loadShared(path));
  // The version is checked before other functions are bound: in another version, these may be missing or take other arguments.
  const readVersion = () => library.func(signatures.abiVersion.symbol, 'int', [])() as number;
  const version = explained(`${path} is not a library of gpt2.ts`, fix, readVersion);
  if (version !== abiVersion) {
    throw new Gpt2Error(`${path} has ABI version ${version}, this program needs ${abiVersion}; ${fix}`);
  }
  const bindings = explained(`${path} lacks functions of gpt2.ts`, fix, () => bind(library));
  loaded.set(path, bindings);
  return bindings;
}

function bind(library: LibraryHandle): Bindings {
  const bindings: Record<string, unknown> = {};
  for (const [name, { symbol, result, types, names }] of Object.entries(signatures)) {
    const call = library.func(symbol, result, types) as (...values: unknown[]) => unknown;
    // Integers and their ranges are checked here, because koffi silently turns 3.7 into 3 and 2**40 into 0.
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
