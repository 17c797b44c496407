// Compiles kernels of a user for a device, caches the result, and loads it.
import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { checkArguments, checkGiven } from '../../base/checks/given.ts';
import { explained, UsageError } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';
import { isCompiled } from '../../base/wording.ts';
import type { CompilerOutput } from '../../native/compiler-output.ts';
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

/** CUDA source, in a file or as a text. */
export interface KernelSource {
  /** Path of a .cu file. */
  readonly file?: string | undefined;
  /** The text of the source, instead of `file`. */
  readonly source?: string | undefined;
  /** Kernels with template arguments to make: ["scale<float, 256>"]. */
  readonly instantiate?: readonly string[] | undefined;
  /** Macros: { TILE: 32 }. ELEMENT and GRADIENT, the types in kernels for ops, are float by default. */
  readonly defines?: Readonly<Record<string, string | number>> | undefined;
  /** Folders in which #include looks, after the source's folder; then this package's cuda/, and LeetGPU's header. */
  readonly includes?: readonly string[] | undefined;
  /**
   * On a CPU: check every access for bounds, for uninitialized shared memory, and for races. Default true; false runs many
   * times faster. GPUs ignore it.
   */
  readonly checks?: boolean | undefined;
}

/**
 * Compiles a file of CUDA kernels for a device and loads them. For a GPU the compiler is NVRTC where it is found (GPT2_NVRTC_LIB,
 * the toolkit, Python's nvidia packages), else nvcc. On a CPU it is a C++ compiler (CXX, g++, clang++, c++), and the kernels run
 * in an emulator that checks every access. A cache in XDG_CACHE_HOME keeps compiled kernels.
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
 * The path of a compiled file of kernels, in the cache; compiled if it is not there. It needs no GPU.
 * @param target compute capability of the GPU, "9.0", or "cpu"
 * @param output for a GPU: "cubin", "ptx", or "log", the compiler's text about registers, memory and spills
 * @throws as `compileKernels`
 */
export function compiledFile(options: KernelSource, target: string, output: CompilerOutput = 'cubin'): string {
  const lists = { instantiate: 'texts', defines: 'object', includes: 'texts' } as const;
  checkGiven(options, {}, { file: 'text', source: 'text', ...lists, checks: 'switch' });
  const { file, source: text, instantiate = [], checks = true } = options;
  const defines = definesOf(options);
  for (const [name, value] of Object.entries(defines)) {
    // Its text would be the name undefined or NaN.
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

/** The folder of the header that LeetGPU's files include. */
const leetgpu = join(packageRoot, 'cuda/emulator/leetgpu');

export const nvccFor = (device: 'cuda' | 'cpu') => (device === 'cuda' ? findNvcc() : undefined);

/** Files that make one program: .cu files, and .cpp and .c files that are linked with them. */
export interface ProgramSource {
  readonly files: readonly string[];
  readonly includes?: readonly string[] | undefined;
  readonly defines?: KernelSource['defines'];
  /** Text that is compiled after that of each file. */
  readonly added?: string;
}

/**
 * The environment of a compiled program. GPT2_EMULATOR holds the options of cuda/cpu/emulator, and glibc puts host arrays into huge
 * pages: llm.c's softmax_forward.cu, which fills arrays of 1.6 GB, takes 42 s instead of over 80 (2 cores of a Zen 4, 2026-11).
 */
export const programEnvironment = (checks: string): Record<string, string | undefined> => ({
  ...process.env,
  GPT2_EMULATOR: checks,
  GLIBC_TUNABLES: ['glibc.malloc.hugetlb=1', process.env.GLIBC_TUNABLES].filter(Boolean).join(':'),
});

/**
 * The path of a compiled program, in the cache; undefined if its files have no main. With `nvccFor` it is compiled for the GPU,
 * else with the emulator.
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
  // Files without a main are compiled only, to say what is wrong with them.
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
      // The package's emulator may need a newer C++ library than this compiler has.
      if (built === undefined || !(error as Error).message.includes(built)) throw error;
      return link();
    }
  });
}

/** The GPUs for which `-arch=native` compiles. */
const ownGpus = () => spawnSync('nvidia-smi', ['--query-gpu=compute_cap', '--format=csv'], { encoding: 'utf8' }).stdout;

export const hasMain = (text: string): boolean => /\bmain\s*\(/.test(withoutComments(text));

const withoutComments = (text: string): string => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');

/** A function of a .cu file, and its parameters as in the source. */
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

/** "solve(const float *a, int n), add<<<>>>(float *a)" */
export const functionList = (functions: readonly FoundFunction[]): string =>
  functions.map(({ name, isKernel, parameters }) => `${name}${isKernel ? '<<<>>>' : ''}(${parameters})`).join(', ') ||
  'none';

/** A file's text, without the mark that editors of Windows begin files with. @throws Gpt2Error if the file cannot be read */
export function readSource(file: string): string {
  const read = () => readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  return explained(`the source ${file} cannot be read`, 'name a .cu file', read);
}

/** Environment variables from which compilers and linkers take flags, headers and libraries. */
const compilerVariables =
  /^(NVCC_(PRE|AP)PEND_FLAGS|NVCC_CCBIN|(C|CPLUS_INCLUDE_|LIBRARY_|COMPILER_)PATH|GCC_EXEC_PREFIX)$/;

/**
 * A hash of everything that the compiled file depends on. Its debug information, for profilers and messages, holds the source's
 * name and paths relative to the working folder.
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

/** The instructions of this processor, where Linux tells them. */
const processorFlags = (): string =>
  existsSync('/proc/cpuinfo') ? (/^(flags|Features).*/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[0] ?? '') : '';

const hashOf = (content: unknown) => hash('sha256', JSON.stringify(content));

/** The files of this package with the compilers' flags, NVRTC's extra headers, and the rewriting of CUDA for a CPU. */
const codeOfCompiling = (): readonly string[] =>
  ['./compiler', './emulated', './ptx', './refusals', './rewrite', './twins', './brackets', '../../native/nvrtc'].map(
    (name) => readFileSync(new URL(`${name}.${isCompiled ? 'js' : 'ts'}`, import.meta.url), 'utf8'),
  );
