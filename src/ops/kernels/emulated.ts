// Compiles CUDA source for a CPU with the C++ compiler of this machine: a file of kernels to a shared library that the native CPU library
// loads, and files with host code to a program that is linked with the emulator (cuda/cpu/emulator). cuda/emulator/kernel.h defines
// CUDA's keywords and functions. After the preprocessor, rewrite.ts rewrites syntax that macros cannot express.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';
import { CompileError, Gpt2Error, gpt2Error } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';
import { isInstalled } from '../../base/wording.ts';
import { emulatorFile, packaged } from '../../native/find-library.ts';
import { TemporaryFolder } from '../../native/temporary-folder.ts';
import { type Compiler, hostFlags, placeOf, type Source } from './compiler.ts';
import { readable, refusalOf } from './refusals.ts';
import { boundOf, type FoundKernel, rewrite } from './rewrite.ts';
import { data, replaced, twins } from './twins.ts';

const headers = join(packageRoot, 'cuda/emulator');
const library = join(packageRoot, 'cuda/cpu/emulator');
const threads = join(packageRoot, 'cuda/runtime/threads.cpp');

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());

const contents = (folder: string): string[] => filesIn(folder).flatMap((path) => [path, readFileSync(path, 'utf8')]);

/** The folder of CUDA's headers in the emulator, and, for cache keys, paths and texts of its files. */
export const emulated = {
  folders: [join(headers, 'include')],
  headers: (): string[] => contents(headers),
  library: (): string[] => [...contents(library), readFileSync(threads, 'utf8')],
};

/** The C++ compiler that CXX names, else the first of g++, clang++ and c++ in PATH. @throws Gpt2Error with advice if there is none */
export function hostCompiler(): { program: string; name: string; identity: unknown } {
  const named = process.env.CXX ? [process.env.CXX] : ['g++', 'clang++', 'c++'];
  for (const program of named) {
    const { status, stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
    if (status !== 0) continue;
    const [name] = stdout.split('\n') as [string];
    return { program, name, identity: [placeOf(program), stdout] };
  }
  throw gpt2Error`there is no C++ compiler, which kernels need on a CPU (looked for ${named.join(', ')}): install g++ or clang++, or name one in CXX`;
}

export function emulatedCompiler(checks: boolean): Compiler {
  const { program, name, identity } = hostCompiler();
  return {
    ...{ name, identity: [identity, checks] },
    compile: (source) => {
      using folder = new TemporaryFolder('kernel');
      const out = join(folder.path, 'kernels.so');
      assemble(program, source, assemblyOf(program, source, checks), checks, `${out}.o`);
      // Links without the sanitizer's run-time library, because cuda/emulator/checks.h defines the library's functions.
      run(program, source, '', ['-shared', '-o', out, `${out}.o`]);
      return readFileSync(out);
    },
  };
}

/** Compiles files that contain host code, and links them with the emulator's library. @throws CompileError with the compiler's messages */
export function emulatedProgram(
  program: string,
  sources: readonly Source[],
  emulator: string,
  hasMain: boolean,
): Buffer {
  using folder = new TemporaryFolder('program');
  const out = join(folder.path, 'program');
  const objects = sources.flatMap((source, index) => programObjects(program, source, index, `${out}-${index}`));
  // Files without a main become a shared library; -z defs makes the linker report functions that are missing.
  const kind = hasMain ? [] : ['-shared', '-Wl,-z,defs'];
  const libraries = ['-pthread', '-ldl', '-lm', ...hostFlags(sources)];
  run(program, sources[0]!, '', [...kind, ...objects, emulator, ...libraries, '-o', out]);
  return readFileSync(out);
}

/** Path of the emulator that was built with the CPU library; undefined if missing or, in a clone, older than the emulator's sources. */
export function builtEmulator(): string | undefined {
  const path = [join(packageRoot, 'build', emulatorFile), packaged('cpu', emulatorFile) ?? ''].find(existsSync);
  const made = path === undefined ? 0 : statSync(path).mtimeMs;
  const files = [...filesIn(library), ...filesIn(headers), threads];
  return isInstalled || files.every((file) => statSync(file).mtimeMs < made) ? path : undefined;
}

/** Compiles the emulator and its CUDA run-time API to one object file. */
export function emulatorObject(program: string): Buffer {
  using folder = new TemporaryFolder('emulator');
  const out = join(folder.path, 'emulator.o');
  const names = readdirSync(library).filter((name) => /(?<!^modules)\.cpp$/.test(name));
  const flags = ['-O3', '-std=c++17', '-fPIC', '-w', ...emulated.folders.map((each) => `-I${each}`)];
  const files = [...names.map((name) => join(library, name)), threads];
  run(program, { name: library, text: '' }, '', [...flags, '-r', '-nostdlib', '-o', out, ...files]);
  return readFileSync(out);
}

/** Compiles one source file of a program to object files: one with checks, and for a CUDA file a second one without checks. */
function programObjects(program: string, source: Source, index: number, path: string): string[] {
  const checked = assemblyOf(program, source, true, true);
  const made = isCudaFile(source)
    ? Object.values(twins(checked, assemblyOf(program, source, false, true), index))
    : [checked];
  return made.map((assembly, number) => {
    const out = `${path}-${number}.o`;
    assemble(program, source, assembly, isCudaFile(source), out);
    return out;
  });
}

/** Whether a file is CUDA, not C or C++. nvcc also decides by the extension. */
const isCudaFile = ({ name }: Source): boolean => !/\.(c|cc|cpp|cxx)$/.test(name);

function assemblyOf(program: string, source: Source, checks: boolean, isProgram = false): string {
  const { text, name, includes, defines } = source;
  const isCuda = isCudaFile(source);
  const language = extname(name) === '.c' ? 'c' : 'c++';
  // Headers with names that no header of the user has; a user may have a kernel.h.
  const included = isCuda ? [isProgram ? 'cuda_runtime' : 'gpt2-kernel', ...(checks ? ['gpt2-checks'] : [])] : [];
  const before = included.map((header) => `#include <${header}.h>\n`).join('');
  const standard = language === 'c' ? [] : ['-std=c++17'];
  const flags = hostFlags([source]);
  const preprocessed = run(program, source, `${before}# 1 ${JSON.stringify(name)}\n${text}\n`, [
    ...['-E', '-x', language, ...standard, '-fPIC', ...includes.map((folder) => `-I${folder}`)],
    ...emulated.folders.flatMap((folder) => ['-isystem', folder]),
    ...Object.entries(defines).map(([macro, value]) => `-D${macro}=${value}`),
    ...(isProgram ? ['-DGPT2_PROGRAM'] : []),
    // Defines nvcc's macros, which headers test with #ifdef: as the same word in CUDA files, where rewrite.ts reads it, else as nothing.
    ...['__device__', '__constant__', '__managed__'].map((word) => `-D${word}=${isCuda ? word : ''}`),
    ...(checks ? [] : ['-DGPT2_PLAIN']),
    // Defines the macro _OPENMP instead of passing -fopenmp, with which GCC would put line markers into the middle of lines.
    ...flags.map((flag) => (flag === '-fopenmp' ? '-D_OPENMP=201511' : flag)),
    '-',
  ]);
  const isClang = /clang/.test(program);
  const { text: made, kernels } = isCuda
    ? rewrite(preprocessed, { isClang, isProgram })
    : { text: preprocessed, kernels: [] };
  // Translates `#pragma unroll` for GCC, with 16 iterations. In four files with fp32 matmuls of size 512, 16 was best for two (8.7 and
  // 7.3 ms; 4 iterations: 11 and 21 ms), within 3% of the best for one; the fourth took over 45 s to compile (2 shared cores, 2026-11).
  const code = isClang || checks ? made : made.replaceAll(/^ *#pragma unroll.*(?=\s+for\b)/gm, '#pragma GCC unroll 16');
  const sanitizers = '-fsanitize=thread,bounds,alignment,integer-divide-by-zero';
  const hasChecks = checks && isCuda;
  // Line markers give the appended table of kernels the source's last line number, which errors such as a missing bracket then have.
  const end = `# ${text.trimEnd().split('\n').length} ${JSON.stringify(name)}\n`;
  const table = isProgram ? '' : tableOf(source, kernels, checks).replaceAll(/^/gm, end);
  return run(program, source, `${code}\n${table}`, [
    ...['-x', language === 'c' ? 'cpp-output' : 'c++-cpp-output', ...standard, ...flags],
    ...['-fPIC', '-fvisibility=hidden', '-g1', '-gdwarf-4', '-w'],
    // Makes paths in debug information relative to the working folder.
    `-fdebug-prefix-map=${process.cwd()}=.`,
    ...(hasChecks ? ['-O1', sanitizers, '-fsanitize-recover=bounds,alignment,integer-divide-by-zero'] : ['-O3']),
    // Contracts a*b+c to fused multiply-add in files of kernels, as nvcc does. Not in programs on x64, which may compare results of
    // kernels with results of host code: nvcc does not contract host code.
    ...(isProgram && process.arch === 'x64' ? ['-march=native', '-ffp-contract=off'] : ['-ffp-contract=fast']),
    ...['-fno-strict-aliasing', '-fno-math-errno', '-fstack-clash-protection'],
    // With checks, inlines short functions of the C++ library, so that errors have the user's line, but not memcpy, malloc and the like.
    ...(hasChecks
      ? ['-finline-small-functions', ...[...copies, 'malloc', 'free'].map((each) => `-fno-builtin-${each}`)]
      : []),
    ...['-S', '-o', '-', '-'],
  ]);
}

function assemble(program: string, source: Source, assembly: string, isWrapped: boolean, out: string): void {
  const made = isCudaFile(source) ? withGaps(assembly) : assembly;
  run(program, source, isWrapped ? renamed(made) : made, ['-x', 'assembler', '-c', '-o', out, '-']);
}

const copies = ['memcpy', 'memmove', 'memset'];
/** Functions that cuda/emulator/checks.h replaces: memory functions, new and delete (mangled), and functions with side effects. */
const wrappedFunctions = [
  ...[...copies, 'malloc', 'free', '_Znwm', '_Znam', '_ZdlPv', '_ZdaPv', '_ZdlPvm', '_ZdaPvm'],
  ...['printf', 'puts', 'putchar', 'clock'],
];

const newNames = new Map(
  wrappedFunctions.flatMap((name): [string, string][] => [
    [name, `__wrap_${name}`],
    [`__real_${name}`, name],
  ]),
);

/** Redirects the wrapped functions in assembly. The linker's --wrap would also redirect them in the emulator. */
const renamed = (assembly: string): string => replaced(assembly, (symbol) => newNames.get(symbol) ?? symbol);

/**
 * Puts 64 unused bytes before and after every variable and constant in assembly, so that the emulator detects accesses just outside of
 * a variable. Compilers insert unused bytes only with AddressSanitizer's run-time library.
 */
function withGaps(assembly: string): string {
  const variables = new Set(
    [...assembly.matchAll(/^\s*\.type\s+([^\s,]+),\s*[@%]\w*object/gm)].map(([, name]) => name),
  );
  const sections = new Set<string>();
  let [section, alignment] = ['', ''];
  // Removes the numbers that rewrite.ts gave sections. Each kind then has one section for values, and one in .bss, without file space.
  const joined = assembly.replaceAll(
    /^\s*\.section\s+"?(\.gpt2_\w+)\.\d+"?,"\w*w.*\n((?:(?!\s*\.(?:section|text|data|bss)\b).*\n)*)/gm,
    (_, name: string, body: string) => {
      const hasValue = body.split('\n').some((line) => data.test(line) && !/^\s*\.(zero|skip|space)\b/.test(line));
      return `.section ${name}${hasValue ? ',"aw",%progbits' : '.bss,"aw",%nobits'}\n${body}`;
    },
  );
  const lines = joined.split('\n').map((line) => {
    if (/^\s*\.(section|text|data|bss)\b/.test(line)) [section, alignment] = [line, ''];
    if (/^\s*\.(p2|b)?align\b/.test(line)) alignment = line;
    // ".comm name,bytes,alignment" declares a variable without initial value; it is moved to .bss, with gaps.
    const [, common, bytes, aligned] = /^\s*\.comm\s+([^\s,]+),\s*(\d+),\s*(\d+)/.exec(line) ?? [];
    if (common !== undefined) {
      const type = `.type ${common}, %object\n.size ${common}, ${bytes}`;
      return `.pushsection .bss\n.zero 64\n.balign ${aligned}\n${type}\n${common}:\n.zero ${bytes}\n.popsection`;
    }
    const label = /^([^\s:]+):/.exec(line)?.[1];
    const isData = label !== undefined && (variables.has(label) || label.startsWith('.LC'));
    if (!isData) return line;
    sections.add(section);
    return `.zero 64\n${alignment}\n${line}`;
  });
  // Adds a gap after the last variable of each section. Sections of device variables fill whole pages, which the emulator protects.
  const ends = [...sections].map((each) => `${each}\n.zero 64${each.includes('.gpt2_') ? '\n.balign 4096' : ''}`);
  return [...lines, ...ends, ''].join('\n');
}

function run(
  program: string,
  { name, text }: Pick<Source, 'name' | 'text'>,
  input: string,
  options: readonly string[],
): string {
  const { status, stdout, stderr, error } = spawnSync(program, options, {
    input,
    encoding: 'utf8',
    maxBuffer: 256 << 20,
    // Unsets LD_PRELOAD: if it loads a sanitizer into this process, the sanitizer would slow down the compiler too.
    env: { ...process.env, LD_PRELOAD: undefined, LC_ALL: 'C' },
  });
  if (error) throw new Gpt2Error(`${program} cannot be run: ${error.message}`, { cause: error });
  if (status === 0) return stdout;
  const refusal = refusalOf(stderr, name, text);
  if (refusal !== undefined) throw new CompileError(refusal);
  throw new CompileError(
    withLines(readable(stderr.trim(), name, headers), name, text) || `${name}: ${program} failed without a message`,
  );
}

/** Adds source lines and carets to a compiler's messages, which lack both if the source is not in a file. */
function withLines(log: string, name: string, source: string): string {
  if (existsSync(name)) return log;
  const lines = source.split('\n');
  return log
    .split('\n')
    .map((message) => {
      const [, file, line, column] = /^(.*?):(\d+):(\d+): (?:fatal )?error: /.exec(message) ?? [];
      if (file !== name) return message;
      return `${message}\n${lines[Number(line) - 1] ?? ''}\n${' '.repeat(Number(column) - 1)}^`;
    })
    .join('\n');
}

/** C++ code of the table in which the native CPU library finds the kernels of a compiled shared library. */
function tableOf({ instantiate }: Source, kernels: readonly FoundKernel[], checks: boolean): string {
  const made = instantiate.map((instance) => {
    const template = kernels.find((kernel) => kernel.name === instance.split('<')[0]!.trim());
    return { ...template, name: instance, parameters: template?.parameters ?? '' };
  });
  const rows = [...kernels.filter(({ isTemplate }) => !isTemplate), ...made].map(({ name, parameters, isBounded }) => {
    const threads = isBounded ? `::${boundOf(name)}` : '1024';
    return `::gpt2_emulator::kernel(${JSON.stringify(name)}, ${JSON.stringify(parameters)}, ${threads}, &::${name}),`;
  });
  return `extern "C" __attribute__((visibility("default")))
const ::gpt2_emulator::Module *gpt2_emulated_module(const ::gpt2_emulator::Host *host) {
  ::gpt2_emulator::host = host;
  static const ::gpt2_emulator::Kernel kernels[] = {${rows.join('\n')} {}};
  static const ::gpt2_emulator::Module module = {::gpt2_emulator::interface_version, ${checks}, ${rows.length}, kernels,
                                                 &::gpt2_emulator::here, &::gpt2_emulator::watch};
  return &module;
}`;
}
