// Compiles a user's CUDA kernels or programs for a GPU, or for the emulator on a CPU, and caches the compiled files.
import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { checkArguments, checkGiven } from '../../base/checks/given.ts';
import { explained, UsageError } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';
import { isCompiled } from '../../base/wording.ts';
import type { Device } from '../../native/device.ts';
import { endAtSecondDemand } from '../../native/last-resort.ts';
import { type Compiler, findCompiler, findNvcc, nvccProgram, type Source } from './compiler.ts';
import { cachedCubin } from './cubin-cache.ts';
import {
  builtEmulator,
  emulated,
  emulatedCompiler,
  emulatedProgram,
  emulatorObject,
  hostCompiler,
} from './emulated.ts';
import { includedFiles } from './includes.ts';
import { instanceOf, type Kernels, openKernels } from './kernels.ts';

/** CUDA source code of kernels: either `file` or `source`, and options of the compiler. */
export interface KernelSource {
  /** Path of a .cu file. */
  readonly file?: string | undefined;
  /** The text of the source, instead of `file`. */
  readonly source?: string | undefined;
  /** Instances of kernel templates to compile: ["scale<float, 256>"]. */
  readonly instantiate?: readonly string[] | undefined;
  /** Macros: { TILE: 32 }. ELEMENT and GRADIENT, the types of tensors and of matrix gradients in kernels for ops, default to float. */
  readonly defines?: Readonly<Record<string, string | number>> | undefined;
  /** Folders that #include searches after the source's folder. This package's cuda/ and LeetGPU's header are searched last. */
  readonly includes?: readonly string[] | undefined;
  /**
   * Whether to check every memory access on a CPU, for bounds, uninitialized shared memory, and races. Default true. Without checks,
   * kernels run many times faster. Ignored on a GPU.
   */
  readonly checks?: boolean | undefined;
}

/**
 * Compiles CUDA kernels for a device and loads them. For a GPU the compiler is NVRTC if it is found (GPT2_NVRTC_LIB, the toolkit,
 * Python's nvidia packages), else nvcc. For a CPU the compiler is a C++ compiler (CXX, g++, clang++, c++), and the kernels run in an
 * emulator that checks every memory access. Compiled kernels are cached in XDG_CACHE_HOME.
 * @throws CompileError with the compiler's messages; Gpt2Error if the file cannot be read, or there is no compiler
 * @example
 * const { fill } = await compileKernels<'fill'>(gpu, {
 *   source: '__global__ void fill(float *out, float value) { out[threadIdx.x] = value; }',
 * });
 * const out = tensorOf(gpu, new Float32Array(32));
 * fill.launch({ grid: 1, block: 32 }, out, 0.5);
 * console.log(out.read());
 */
export async function compileKernels<Name extends string = string>(
  device: Device,
  options: KernelSource,
): Promise<Kernels<Name>> {
  checkArguments({ device });
  const { library, computeCapability = 'cpu' } = device.description;
  endAtSecondDemand(library);
  const path = compiledFile(options, computeCapability);
  return openKernels<Name>(device, path, options.file ?? 'the source', definesOf(options));
}

const definesOf = ({ defines }: KernelSource) => ({ ELEMENT: 'float', GRADIENT: 'float', ...defines });

/**
 * The path, in the cache, of compiled kernels. Compiles the source if the cache lacks it; this needs no GPU.
 * @param target a GPU's compute capability such as "9.0", or "cpu"
 * @param output for a GPU: "cubin", "ptx", or "log", the compiler's messages about registers, memory and spills
 * @throws as `compileKernels`
 */
export function compiledFile(options: KernelSource, target: string, output: 'cubin' | 'ptx' | 'log' = 'cubin'): string {
  const lists = { instantiate: 'texts', defines: 'object', includes: 'texts' } as const;
  checkGiven(options, {}, { file: 'text', source: 'text', ...lists, checks: 'switch' });
  const { file, source: text, instantiate = [], checks = true } = options;
  const defines = definesOf(options);
  for (const [name, value] of Object.entries(defines)) {
    // As text, the macro's value would be "undefined" or "NaN".
    if (typeof value !== 'string' && !Number.isFinite(value))
      throw UsageError.takes(`the macro ${name}`, 'a text or a number', value);
  }
  const isEmulated = target === 'cpu';
  if ((file === undefined) === (text === undefined)) throw new UsageError('kernels need either file or source');
  if (!isEmulated && !/^\d+\.\d$/.test(target)) {
    throw new UsageError(`the compute capability takes the form 9.0, not ${JSON.stringify(target)}`);
  }
  const folder = file === undefined ? process.cwd() : dirname(resolve(file));
  const includes = [
    folder,
    ...(options.includes ?? []).map((path) => resolve(path)),
    join(packageRoot, 'cuda'),
    leetgpu,
  ];
  const source: Source = {
    ...{ text: text ?? readSource(file!), name: file ?? 'source.cu' },
    ...{ includes, defines, instantiate: instantiate.map((name) => instanceOf(name, defines)), target },
  };
  const compiler: Compiler = isEmulated ? emulatedCompiler(checks) : findCompiler();
  return cachedCubin(keyOf(source, compiler.identity), () => compiler.compile(source, output), output);
}

/** Folder of this package's replacement for the header of the site LeetGPU, which kernels written for that site include. */
const leetgpu = join(packageRoot, 'cuda/emulator/leetgpu');

export const nvccFor = (device: 'cuda' | 'cpu') => (device === 'cuda' ? findNvcc() : undefined);

/** The source files of one program: .cu files, and .cpp and .c files to link with them. */
export interface ProgramSource {
  readonly files: readonly string[];
  readonly includes?: readonly string[] | undefined;
  readonly defines?: KernelSource['defines'];
  /** Source code that is appended to each file. */
  readonly added?: string;
}

/**
 * Environment variables for a compiled program. GPT2_EMULATOR holds the emulator's options (cuda/cpu/emulator). GLIBC_TUNABLES makes
 * glibc use huge pages: llm.c's softmax_forward.cu, with arrays of 1.6 GB, takes 42 s instead of over 80 (2 cores, Zen 4, 2026-11).
 */
export const programEnvironment = (checks: string): Record<string, string | undefined> => ({
  ...process.env,
  GPT2_EMULATOR: checks,
  GLIBC_TUNABLES: ['glibc.malloc.hugetlb=1', process.env.GLIBC_TUNABLES].filter(Boolean).join(':'),
});

/**
 * The path, in the cache, of a compiled program; undefined if no file has a main. For device "cuda", nvcc compiles the program, if
 * there is nvcc. Otherwise a C++ compiler compiles the program for the emulator.
 * @throws as `compiledFile`
 */
export function compiledProgram(
  { files, includes = [], defines = {}, added = '' }: ProgramSource,
  device: 'cuda' | 'cpu',
): string | undefined {
  const nvcc = nvccFor(device);
  const sources = files.map((file): Source => {
    const folders = [dirname(resolve(file)), ...includes.map((path) => resolve(path)), leetgpu];
    return { text: readSource(file) + added, name: file, includes: folders, defines, instantiate: [], target: 'cpu' };
  });
  // Files without a main are compiled too, so that their errors are reported, but make no program.
  const isProgram = sources.some(({ text }) => hasMain(text));
  const made = (compiler: unknown, make: () => Buffer) => {
    const key = hashOf([nvcc ? 'gpu' : 'cpu', ...sources.map((source) => keyOf(source, compiler))]);
    const path = cachedCubin(key, make, isProgram ? 'program' : 'o');
    return isProgram ? path : undefined;
  };
  if (nvcc) return made([nvcc.identity, ownGpus()], () => nvccProgram(nvcc.program, sources, isProgram, added));
  const { program, identity } = hostCompiler();
  const parts = [identity, emulated.library(), emulated.headers(), codeOfCompiling()];
  const link = (emulator = cachedCubin(hashOf(parts), () => emulatorObject(program), 'o')) =>
    emulatedProgram(program, sources, emulator, isProgram);
  return made(parts, () => {
    const built = builtEmulator();
    try {
      return link(built);
    } catch (error) {
      // Compiles the emulator again, because the emulator that was found may need a newer C++ library than this compiler has.
      if (built === undefined || !(error as Error).message.includes(built)) throw error;
      return link();
    }
  });
}

/** Compute capabilities of this machine's GPUs, for which nvcc's `-arch=native` compiles. */
const ownGpus = () => spawnSync('nvidia-smi', ['--query-gpu=compute_cap', '--format=csv'], { encoding: 'utf8' }).stdout;

export const hasMain = (text: string): boolean => /\bmain\s*\(/.test(withoutComments(text));

const withoutComments = (text: string): string => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');

/** A host function or kernel in a .cu file; `parameters` is its parameter list as in the source. */
export interface FoundFunction {
  readonly name: string;
  readonly isKernel: boolean;
  readonly parameters: string;
}

export const functionsOf = (files: readonly string[]): FoundFunction[] =>
  files.flatMap((file) =>
    [
      ...withoutComments(readSource(file)).matchAll(
        /^[^\n;{}#=]*?\b(?!(?:if|while|switch|catch)\b)(\w+)\s*\(([^(){};]*)\)\s*\{/gm,
      ),
    ]
      .filter(([head]) => !head.includes('__device__'))
      .map(([head, name, list]) => ({
        ...{ name: name!, isKernel: head.includes('__global__') },
        parameters: list!.replaceAll(/\s+/g, ' ').trim(),
      })),
  );

/** Functions and kernels in one line, for messages: "solve(const float *a, int n), add<<<>>>(float *a)". */
export const functionList = (functions: readonly FoundFunction[]): string =>
  functions.map(({ name, isKernel, parameters }) => `${name}${isKernel ? '<<<>>>' : ''}(${parameters})`).join(', ') ||
  'none';

/** A file's text, without a byte order mark (U+FEFF) at its start. @throws Gpt2Error if the file cannot be read */
export function readSource(file: string): string {
  const read = () => readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  return explained(`the source ${file} cannot be read`, 'name a .cu file', read);
}

/** Names of environment variables that change which flags, headers or libraries compilers and linkers use. */
const compilerVariables =
  /^(NVCC_(PRE|AP)PEND_FLAGS|NVCC_CCBIN|(C|CPLUS_INCLUDE_|LIBRARY_|COMPILER_)PATH|GCC_EXEC_PREFIX)$/;

/**
 * The cache key: a hash of everything on which the compiled file depends. This includes the working folder, because debug information,
 * for profilers and messages, has paths relative to this folder.
 */
function keyOf(source: Source, compiler: unknown): string {
  const isEmulated = source.target === 'cpu';
  const macros = Object.entries(source.defines).map(([name, value]) => `#define ${name} ${value}\n`);
  const files = includedFiles(macros.join('') + source.text, source.includes[0]!, [
    ...source.includes,
    ...(isEmulated ? emulated.folders : []),
  ]);
  const environment = Object.entries(process.env).filter(([name]) => compilerVariables.test(name));
  const headers = isEmulated ? emulated.headers() : [];
  return hashOf([
    source,
    process.cwd(),
    process.arch,
    [...files],
    compiler,
    codeOfCompiling(),
    headers,
    environment,
    processorFlags(),
  ]);
}

/** The instruction sets of this processor as /proc/cpuinfo lists them; "" where there is no such file. */
const processorFlags = (): string =>
  existsSync('/proc/cpuinfo') ? (/^(flags|Features).*/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[0] ?? '') : '';

const hashOf = (content: unknown) => hash('sha256', JSON.stringify(content));

/** The texts of this package's modules that affect compiled files: compiler flags, NVRTC's extra headers, rewriting of CUDA for a CPU. */
const codeOfCompiling = (): readonly string[] =>
  ['./compiler', './emulated', './ptx', './refusals', './rewrite', './twins', './brackets', '../../native/nvrtc'].map(
    (name) => readFileSync(new URL(`${name}.${isCompiled ? 'js' : 'ts'}`, import.meta.url), 'utf8'),
  );
