// Loads NVRTC, NVIDIA's compiler as a library, which compiles CUDA source to a cubin or PTX without a GPU or a toolkit. Finds programs
// of the toolkit, and demangles the names of kernels.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { LibraryHandle } from 'koffi';
import { explained, Gpt2Error, orElse } from '../base/errors.ts';
import { lazily } from '../base/lazily.ts';
import { loadShared } from './koffi.ts';

type Nvrtc = ReturnType<typeof bind>;

/** Path of a program of the CUDA toolkit, such as nvcc: in the toolkit's folder, PATH or Python's packages; undefined if not found. */
export function findTool(name: string): string | undefined {
  const runs = (path: string) => spawnSync(path, ['--version']).status === 0;
  const places = [...toolkits().map((root) => join(root, 'bin', name)), name];
  return places.find(runs) ?? inPythonPackages(join('bin', name)).find(runs);
}

/** Paths of a file or folder in NVIDIA's Python packages, one for each package that contains it. */
function inPythonPackages(path: string): string[] {
  // Removes the working folder from Python's search path, where Python would run a file nvidia.py.
  const program = 'import sys; sys.path[:] = filter(None, sys.path); import nvidia; print("\\n".join(nvidia.__path__))';
  const python = spawnSync('python3', ['-c', program], { encoding: 'utf8' });
  const roots = python.status === 0 ? python.stdout.trim().split('\n').filter(existsSync) : [];
  return roots.flatMap((root) => readdirSync(root).map((part) => join(root, part, path))).filter(existsSync);
}

export const toolkits = (): string[] =>
  [process.env.CUDA_HOME, process.env.CUDA_PATH, '/usr/local/cuda'].filter((path): path is string => Boolean(path));

const libraryName = /^libnvrtc\.so(\.\d+)*$/;

function* candidates(): Generator<string> {
  const inFolder = (folder: string) =>
    (existsSync(folder) ? readdirSync(folder) : [])
      .filter((name) => libraryName.test(name))
      .map((name) => join(folder, name));
  for (const root of toolkits()) for (const library of ['lib64', 'lib']) yield* inFolder(join(root, library));
  // Names without a folder: the dynamic loader searches its path for them.
  for (const name of ['libnvrtc.so.13', 'libnvrtc.so.12', 'libnvrtc.so']) yield name;
  for (const folder of inPythonPackages('lib')) yield* inFolder(folder);
}

const found = lazily(() => {
  for (const path of candidates()) {
    const made = orElse(undefined, () => open(path));
    if (made) return made;
  }
  return undefined;
});

/**
 * The NVRTC that GPT2_NVRTC_LIB names, else an NVRTC in the toolkit, the system or Python's packages; undefined if there is none.
 * @throws Gpt2Error if the named library cannot be loaded
 */
export function findNvrtc(): Nvrtc | undefined {
  const named = process.env.GPT2_NVRTC_LIB;
  if (!named) return found();
  return explained(`${named} is not a usable NVRTC`, 'correct or unset GPT2_NVRTC_LIB', () => open(named));
}

// The C++ run-time library is present, because the native libraries need it.
const runtime = process.platform === 'darwin' ? '/usr/lib/libc++abi.dylib' : 'libstdc++.so.6';
const demangle = lazily(() => loadShared(runtime).func('__cxa_demangle', 'str', ['str', 'void *', 'void *', 'void *']));

/** Demangles a C++ name: "_Z3addPfi" becomes "add(float*, int)". A name that is not mangled is returned unchanged. */
export const demangled = (name: string): string => (demangle()(name, null, null, null) as string | null) ?? name;

/**
 * C++ headers that kernels written for nvcc include, and NVRTC lacks. The replacements here declare only names that device code uses
 * and that are not built into the compiler.
 */
const integerTypes = ['8:char', '16:short', '32:int', '64:long long']
  .map((each) => each.split(':'))
  .map(([bits, type]) => `typedef signed ${type} int${bits}_t; typedef unsigned ${type} uint${bits}_t;`)
  .join(' ');
const standardHeaders: Readonly<Record<string, string>> = {
  stdint: `${integerTypes} typedef uint64_t uintptr_t; typedef int64_t intptr_t;`,
  stddef: 'typedef unsigned long size_t; typedef long ptrdiff_t;',
  float: '#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n#define FLT_EPSILON 1.192092896e-07f\n',
  limits: '#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n#define UINT_MAX 4294967295u\n',
  // INFINITY and NAN are constant expressions, so that they can initialize device variables.
  math: '#define INFINITY __builtin_bit_cast(float, 0x7f800000)\n#define NAN __builtin_bit_cast(float, 0x7fffffff)\n',
  ...{ stdio: '', stdlib: '', string: '', assert: '' },
};
const headerTexts = Object.entries(standardHeaders).flatMap(([name, text]) => {
  const once = `#pragma once\n${text}\n`;
  return [
    { name: `${name}.h`, text: once },
    { name: `c${name}`, text: `#pragma once\n#include <${name}.h>\n` },
  ];
});

const opened = new Map<string, Nvrtc>();

function open(path: string): Nvrtc {
  const known = opened.get(path);
  if (known) return known;
  // Loads NVRTC's library of builtins from NVRTC's folder, because NVRTC would search only the dynamic loader's path.
  const folder = existsSync(path) ? dirname(realpathSync(path)) : undefined;
  const builtins = folder && readdirSync(folder).find((name) => /^libnvrtc-builtins\.so\.\d+\.\d+$/.test(name));
  if (builtins) loadShared(join(folder, builtins));
  const made = bind(loadShared(path), path, folder);
  opened.set(path, made);
  return made;
}

function bind(library: LibraryHandle, path: string, folder: string | undefined) {
  const version = library.func('nvrtcVersion', 'int', ['void *', 'void *']);
  const create = library.func('nvrtcCreateProgram', 'int', ['void *', 'str', 'str', 'int', 'str *', 'str *']);
  const addName = library.func('nvrtcAddNameExpression', 'int', ['uint64_t', 'str']);
  const compile = library.func('nvrtcCompileProgram', 'int', ['uint64_t', 'int', 'str *']);
  const destroy = library.func('nvrtcDestroyProgram', 'int', ['void *']);
  const errorText = library.func('nvrtcGetErrorString', 'str', ['int']);
  const reader = (what: string) => {
    const size = library.func(`nvrtcGet${what}Size`, 'int', ['uint64_t', 'void *']);
    const get = library.func(`nvrtcGet${what}`, 'int', ['uint64_t', 'void *']);
    return (program: bigint): Buffer => {
      const bytes = new BigUint64Array(1);
      check(size(program, bytes) as number, what);
      const content = Buffer.alloc(Number(bytes[0]));
      check(get(program, content) as number, what);
      return content;
    };
  };
  const readers = { cubin: reader('CUBIN'), ptx: reader('PTX'), log: reader('ProgramLog') };
  const check = (status: number, what: string): void => {
    if (status !== 0) throw new Gpt2Error(`NVRTC ${path} failed: ${what}: ${errorText(status)}`);
  };
  const [major, minor] = [new Int32Array(1), new Int32Array(1)];
  check(version(major, minor) as number, 'nvrtcVersion');
  const headers = [
    ...(folder ? [join(folder, '../include'), join(folder, '../../../include')] : []),
    ...toolkits().map((root) => join(root, 'include')),
  ].find((folder) => existsSync(join(folder, 'cuda_bf16.h')));
  return {
    path,
    /** Version of NVRTC: "13.0". */
    version: `${major[0]}.${minor[0]}`,
    /** The folder of CUDA's headers beside this NVRTC, else in a toolkit; undefined if not found. */
    headers,
    /** @returns the requested output, or the compiler's messages if compilation fails */
    compile(
      source: string,
      name: string,
      options: readonly string[],
      kernels: readonly string[],
      output: keyof typeof readers,
    ): Buffer | string {
      const out = new BigUint64Array(1);
      const [texts, names] = [headerTexts.map(({ text }) => text), headerTexts.map(({ name }) => name)];
      check(create(out, source, name, headerTexts.length, texts, names) as number, 'nvrtcCreateProgram');
      const program = out[0]!;
      try {
        for (const kernel of kernels) check(addName(program, kernel) as number, 'nvrtcAddNameExpression');
        const status = compile(program, options.length, [...options]) as number;
        if (status === 0) return readers[output](program);
        const log = readers.log(program).toString().replace(/\0$/, '');
        return log.trim() || String(errorText(status));
      } finally {
        destroy(out);
      }
    },
  };
}
