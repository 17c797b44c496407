// Compiles CUDA source for a CPU with the C++ compiler of this machine: a file of kernels to a shared library that the CPU library
// loads, files with host code to a program that links the emulator (cuda/cpu/emulator). cuda/emulator/kernel.h defines CUDA's
// keywords and functions; rewrite.ts rewrites syntax that a macro cannot express, after the preprocessor.
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

/** The text before a source, the folders of the emulator's headers, and the emulator's files with their contents. */
export const emulated = {
  prelude: '#include "kernel.h"\n',
  folders: [join(headers, 'include'), headers],
  headers: (): string[] => contents(headers),
  library: (): string[] => [...contents(library), readFileSync(threads, 'utf8')],
};

/** The C++ compiler that CXX names, or the first of three in PATH. @throws Gpt2Error if there is none, saying how to get one */
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
      // Without the sanitizer's library: cuda/emulator/checks.h defines its functions.
      run(program, source, '', ['-shared', '-o', out, `${out}.o`]);
      return readFileSync(out);
    },
  };
}

/** Compiles files with host code to a program, linked with the emulator's object file. @throws CompileError */
export function emulatedProgram(
  program: string,
  sources: readonly Source[],
  emulator: string,
  hasMain: boolean,
): Buffer {
  using folder = new TemporaryFolder('program');
  const out = join(folder.path, 'program');
  const objects = sources.flatMap((source, index) => programObjects(program, source, index, `${out}-${index}`));
  // A library instead of a program also shows that no function is missing.
  const kind = hasMain ? [] : ['-shared', '-Wl,-z,defs'];
  const libraries = ['-pthread', '-ldl', '-lm', ...hostFlags(sources)];
  run(program, sources[0]!, '', [...kind, ...objects, emulator, ...libraries, '-o', out]);
  return readFileSync(out);
}

/** The emulator that was built with the CPU library; in a clone, if no file of it has changed since. */
export function builtEmulator(): string | undefined {
  const path = [join(packageRoot, 'build', emulatorFile), packaged('cpu', emulatorFile) ?? ''].find(existsSync);
  const made = path === undefined ? 0 : statSync(path).mtimeMs;
  const files = [...filesIn(library), ...filesIn(headers), threads];
  return isInstalled || files.every((file) => statSync(file).mtimeMs < made) ? path : undefined;
}

/** The emulator and CUDA's runtime API, compiled to one object file. */
export function emulatorObject(program: string): Buffer {
  using folder = new TemporaryFolder('emulator');
  const out = join(folder.path, 'emulator.o');
  const names = readdirSync(library).filter((name) => /(?<!^modules)\.cpp$/.test(name));
  const flags = ['-O3', '-std=c++17', '-fPIC', '-w', ...emulated.folders.map((each) => `-I${each}`)];
  const files = [...names.map((name) => join(library, name)), threads];
  run(program, { name: library, text: '' }, '', [...flags, '-r', '-nostdlib', '-o', out, ...files]);
  return readFileSync(out);
}

/** The object files of a program's file: with checks, and for CUDA also without. */
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

/** Whether a file is in CUDA's language, as nvcc decides it; other files include a header of CUDA. */
const isCudaFile = ({ name }: Source): boolean => !/\.(c|cc|cpp|cxx)$/.test(name);

function assemblyOf(program: string, source: Source, checks: boolean, isProgram = false): string {
  const { text, name, includes, defines } = source;
  const isCuda = isCudaFile(source);
  const language = extname(name) === '.c' ? 'c' : 'c++';
  const before = [
    isCuda ? emulated.prelude : '',
    isCuda && isProgram ? '#include "cuda_runtime.h"\n' : '',
    isCuda && checks ? '#include "checks.h"\n' : '',
  ].join('');
  const standard = language === 'c' ? [] : ['-std=c++17'];
  const flags = hostFlags([source]);
  const preprocessed = run(program, source, `${before}# 1 ${JSON.stringify(name)}\n${text}\n`, [
    ...['-E', '-x', language, ...standard, '-fPIC', ...includes.map((folder) => `-I${folder}`)],
    ...emulated.folders.flatMap((folder) => ['-isystem', folder]),
    ...Object.entries(defines).map(([macro, value]) => `-D${macro}=${value}`),
    ...(isProgram ? ['-DGPT2_PROGRAM'] : []),
    // Macros, as nvcc's: headers ask whether they are defined. In a file of the host they mean nothing; else rewrite.ts reads them.
    ...['__device__', '__constant__', '__managed__'].map((word) => `-D${word}=${isCuda ? word : ''}`),
    ...(checks ? [] : ['-DGPT2_PLAIN']),
    // Given -fopenmp itself, GCC puts line markers into the middle of lines.
    ...flags.map((flag) => (flag === '-fopenmp' ? '-D_OPENMP=201511' : flag)),
    '-',
  ]);
  const isClang = /clang/.test(program);
  const { text: made, kernels } = isCuda
    ? rewrite(preprocessed, { isClang, isProgram })
    : { text: preprocessed, kernels: [] };
  // GCC's name of the pragma. Of four files' fp32 matmuls of 512, 16 rounds were best for two (8.7 and 7.3 ms; unrolled by 4 11 and 21),
  // and within 3% of the best for one; the fourth then compiles for over 45 s (2 shared cores, 2026-11).
  const code = isClang || checks ? made : made.replaceAll(/^ *#pragma unroll.*(?=\s+for\b)/gm, '#pragma GCC unroll 16');
  const sanitizers = '-fsanitize=thread,bounds,alignment,integer-divide-by-zero';
  const hasChecks = checks && isCuda;
  // An error that the compiler finds only in the table, such as a missing bracket, is reported at the source's last line.
  const end = `# ${text.trimEnd().split('\n').length} ${JSON.stringify(name)}\n`;
  const table = isProgram ? '' : tableOf(source, kernels, checks).replaceAll(/^/gm, end);
  return run(program, source, `${code}\n${table}`, [
    ...['-x', language === 'c' ? 'cpp-output' : 'c++-cpp-output', ...standard, ...flags],
    ...['-fPIC', '-fvisibility=hidden', '-g1', '-gdwarf-4', '-w'],
    // Debug information has no paths of this machine's working folder.
    `-fdebug-prefix-map=${process.cwd()}=.`,
    // Inlined copies keep the line of the source. nvcc contracts kernels to fused multiply-add, and this does too where no host code
    // is in the file. A program compares with results of its host code, which nvcc does not contract.
    ...(hasChecks ? ['-O1', sanitizers, '-fsanitize-recover=bounds,alignment,integer-divide-by-zero'] : ['-O3']),
    ...(isProgram && process.arch === 'x64' ? ['-march=native', '-ffp-contract=off'] : ['-ffp-contract=fast']),
    ...['-fno-strict-aliasing', '-fno-math-errno', '-fstack-clash-protection'],
    // Short functions of the C++ library are inlined, so that errors have the user's line; memcpy and malloc are never inlined.
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
/** Functions that cuda/emulator/checks.h replaces: memory functions, C++'s new and delete (mangled), and functions with effects. */
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

/** Renames the wrapped functions in the assembly, and not by the linker's --wrap, which would also replace them in the emulator. */
const renamed = (assembly: string): string => replaced(assembly, (symbol) => newNames.get(symbol) ?? symbol);

/**
 * Puts 64 unused bytes before and after every variable and constant in the assembly, so that the emulator detects an access a
 * little past the end of a variable. Compilers offer this only with AddressSanitizer's run-time library.
 */
function withGaps(assembly: string): string {
  const variables = new Set(
    [...assembly.matchAll(/^\s*\.type\s+([^\s,]+),\s*[@%]\w*object/gm)].map(([, name]) => name),
  );
  const sections = new Set<string>();
  let [section, alignment] = ['', ''];
  // The linker joins the sections of one kind of device variables (rewrite.ts). Those without a value take no room in the file.
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
    // A variable without a value has no section yet: ".local name", ".comm name,bytes,alignment".
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
  // Also after the last variable of each section. Device variables have separate pages, which the emulator protects.
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
    // A sanitizer that this process runs under would slow the compiler.
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

/** The compiler's messages. If the source is no file, the compiler cannot show its lines: they are added. */
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

/** The table by which the CPU library finds the kernels of a shared library. */
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
