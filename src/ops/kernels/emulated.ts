// Compiles CUDA source for the CPU library: with the C++ compiler of this machine, to a shared library that cuda/cpu/emulator
// loads. cuda/emulator/kernel.h defines CUDA's keywords and functions; syntax that a macro cannot express is rewritten here,
// after the preprocessor.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CompileError, Gpt2Error, gpt2Error } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';
import { TemporaryFolder } from '../../native/temporary-folder.ts';
import { type Compiler, hostCode, placeOf, type Source } from './compiler.ts';
import { withoutPtx } from './ptx.ts';
import { split } from './signature.ts';

const headers = join(packageRoot, 'cuda/emulator');

/** The text before a source, the folders of the emulator's headers, and these headers' paths and contents. */
export const emulated = {
  prelude: '#include "kernel.h"\n',
  folders: [join(headers, 'include'), headers],
  headers: (): string[] =>
    readdirSync(headers, { recursive: true, encoding: 'utf8' })
      .sort()
      .map((name) => join(headers, name))
      .flatMap((path) => (statSync(path).isFile() ? [path, readFileSync(path, 'utf8')] : [])),
};

/** The C++ compiler that CXX names, or the first of three in PATH. @throws Gpt2Error if there is none, saying how to get one */
export function emulatedCompiler(checks: boolean): Compiler {
  const named = process.env.CXX ? [process.env.CXX] : ['g++', 'clang++', 'c++'];
  for (const program of named) {
    const { status, stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
    if (status !== 0) continue;
    const [name] = stdout.split('\n') as [string];
    const identity = [placeOf(program), stdout, checks];
    return { name, identity, compile: (source) => compile(program, source, checks) };
  }
  throw gpt2Error`there is no C++ compiler, which kernels need on a CPU (looked for ${named.join(', ')}): install g++ or clang++, or name one in CXX`;
}

function compile(program: string, source: Source, checks: boolean): Buffer {
  const { text, name, includes, defines } = source;
  const before = emulated.prelude + (checks ? '#include "checks.h"\n' : '');
  const preprocessed = run(program, source, `${before}# 1 ${JSON.stringify(name)}\n${text}\n`, [
    ...['-E', '-x', 'c++', '-std=c++17', '-fPIC', ...includes.map((folder) => `-I${folder}`)],
    ...emulated.folders.flatMap((folder) => ['-isystem', folder]),
    ...Object.entries(defines).map(([macro, value]) => `-D${macro}=${value}`),
    '-',
  ]);
  const sanitizers = '-fsanitize=thread,bounds,alignment,integer-divide-by-zero';
  using folder = new TemporaryFolder('kernel');
  const out = join(folder.path, 'kernels.so');
  const assembly = run(program, source, emulatedSource(preprocessed, source, checks), [
    ...['-x', 'c++-cpp-output', '-std=c++17', '-fPIC', '-fvisibility=hidden', '-g1', '-gdwarf-4', '-w'],
    // Debug information has no paths of this machine's working folder.
    `-fdebug-prefix-map=${process.cwd()}=.`,
    // Inlined copies keep the line of the source. -ffp-contract: nvcc also contracts to fused multiply-add.
    ...(checks ? ['-O1', sanitizers, '-fsanitize-recover=bounds,alignment,integer-divide-by-zero'] : ['-O2']),
    ...['-ffp-contract=fast', '-fno-strict-aliasing', '-fno-math-errno', '-fstack-clash-protection'],
    // Short functions of the C++ library are inlined, so that errors have the user's line; memcpy and malloc are never inlined.
    ...(checks
      ? ['-finline-small-functions', ...[...copies, 'malloc', 'free'].map((name) => `-fno-builtin-${name}`)]
      : []),
    ...['-S', '-o', '-', '-'],
  ]);
  run(program, source, withGaps(assembly), ['-x', 'assembler', '-c', '-o', `${out}.o`, '-']);
  // Without the sanitizer's library: cuda/emulator/checks.h defines its functions.
  const wraps = checks ? wrappedFunctions.map((name) => `-Wl,--wrap=${name}`) : [];
  run(program, source, '', ['-shared', ...wraps, '-o', out, `${out}.o`]);
  return readFileSync(out);
}

const copies = ['memcpy', 'memmove', 'memset'];
/** Functions that the linker replaces by those in cuda/emulator/checks.h: of memory, and C++'s new and delete, mangled. */
const wrappedFunctions = [...copies, 'malloc', 'free', '_Znwm', '_Znam', '_ZdlPv', '_ZdaPv', '_ZdlPvm', '_ZdaPvm'];

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
  const lines = assembly.split('\n').map((line) => {
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
  // Also after the last variable of each section.
  return [...lines, ...[...sections].map((each) => `${each}\n.zero 64`), ''].join('\n');
}

function run(program: string, { name, text }: Source, input: string, options: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, options, {
    input,
    encoding: 'utf8',
    maxBuffer: 256 << 20,
    // A sanitizer that this process runs under would slow the compiler.
    env: { ...process.env, LD_PRELOAD: undefined, LC_ALL: 'C' },
  });
  if (error) throw new Gpt2Error(`${program} cannot be run: ${error.message}`, { cause: error });
  if (status === 0) return stdout;
  const [, place, header] = missingHeader.exec(stderr) ?? [];
  if (header !== undefined) {
    throw new CompileError(
      `${place}: error: ${header} is not emulated on a CPU: run this kernel on a GPU, or write it without`,
    );
  }
  throw new CompileError(withLines(stderr.trim(), name, text) || `${name}: ${program} failed without a message`);
}

/** The compiler's message about a missing header of CUDA or of a library that comes with CUDA. */
const missingHeader =
  /^(.*?:\d+):\d+: fatal error: '?((?:cu(?:da|b|rand|blas|dnn|fft|sparse|solver|tlass|te)|thrust|cooperative_groups|nv)[\w./]*)'?(?:: No such file| file not found)/m;

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

interface FoundKernel {
  readonly name: string;
  /** Names of the kernel's parameters, separated by commas. */
  readonly parameters: string;
  readonly isTemplate: boolean;
  /** Whether a constant (`boundOf`) holds the kernel's largest number of threads. */
  readonly isBounded: boolean;
}

/** The name of the constant with a kernel's largest number of threads (__launch_bounds__); a template if the kernel is one. */
const boundOf = (kernel: string): string => kernel.replace(/\w+(<.*)?$/, 'gpt2_threads_$&');

/**
 * Rewrites preprocessed CUDA as C++: shared arrays become references to the block's memory; a table of kernels comes last.
 * @throws CompileError for PTX that is not emulated, and for code of the host
 */
function emulatedSource(preprocessed: string, { text: source, name, instantiate }: Source, checks: boolean): string {
  refuseForeign(preprocessed);
  const { text, kernels } = withoutCuda(withoutPtx(preprocessed, (at) => placeAt(preprocessed, at)));
  const made = instantiate.map((instance) => {
    const template = kernels.find((kernel) => kernel.name === instance.split('<')[0]!.trim());
    return { ...template, name: instance, parameters: template?.parameters ?? '' };
  });
  const rows = [...kernels.filter(({ isTemplate }) => !isTemplate), ...made].map(({ name, parameters, isBounded }) => {
    const threads = isBounded ? `::${boundOf(name)}` : '1024';
    return `::gpt2_emulator::kernel(${JSON.stringify(name)}, ${JSON.stringify(parameters)}, ${threads}, &::${name}),`;
  });
  const table = `extern "C" __attribute__((visibility("default")))
const ::gpt2_emulator::Module *gpt2_emulated_module(const ::gpt2_emulator::Host *host) {
  ::gpt2_emulator::host = host;
  static const ::gpt2_emulator::Kernel kernels[] = {${rows.join('\n')} {}};
  static const ::gpt2_emulator::Module module = {::gpt2_emulator::interface_version, ${checks}, ${rows.length}, kernels,
                                                 [] { return &::gpt2_emulator::here; }};
  return &module;
}`;
  // An error that the compiler finds only in the table, such as a missing bracket, is reported at the source's last line.
  const end = `# ${source.trimEnd().split('\n').length} ${JSON.stringify(name)}\n`;
  return `${text}\n${table.replaceAll(/^/gm, end)}`;
}

/** Code that a kernel on a CPU cannot have. The system's headers may have it: their assembly names symbols. */
const foreign: readonly (readonly [RegExp, string])[] = [
  [hostCode.pattern, hostCode.message],
  [
    /(?<![\w.>])(?:str(?:n?cpy|n?cat|n?cmp|len|r?chr|str|dup)|mem(?:cmp|chr)|calloc|realloc)\s*\(/,
    'a GPU does not have this function of C: write it as a loop',
  ],
];

function refuseForeign(preprocessed: string): void {
  let [file, line, isSystem] = ['', 0, false];
  for (const text of preprocessed.split('\n')) {
    const marker = /^# (\d+) "(.*?)"(.*)$/.exec(text);
    if (marker) {
      [file, line, isSystem] = [marker[2]!, Number(marker[1]), / 3\b/.test(marker[3]!)];
      continue;
    }
    const code = isSystem ? '' : text.replaceAll(/"(?:\\.|[^"\\])*"/g, '""');
    const why = foreign.find(([pattern]) => pattern.test(code))?.[1];
    if (why !== undefined) throw new CompileError(`${file}:${line}: error: ${why}\n  ${text.trim()}`);
    line++;
  }
}

/** "file:line" of a place in preprocessed code; undefined in a header of the system. */
function placeAt(preprocessed: string, at: number): string | undefined {
  const marker = preprocessed.lastIndexOf('\n# ', at) + 1;
  const [, line, file, flags] = /^# (\d+) "(.*?)"(.*)/.exec(preprocessed.slice(marker, at)) ?? [];
  const lines = preprocessed.slice(marker, at).split('\n').length - 2;
  return / 3\b/.test(flags ?? '') ? undefined : `${file}:${Number(line) + lines}`;
}

/** __launch_bounds__, whose arguments may have brackets in brackets. */
const bounds = String.raw`\b__launch_bounds__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)`;

const words = [
  String.raw`"(?:\\.|[^"\\\n])*"`,
  String.raw`(?<![\w])'(?:\\.|[^'\\\n])+'`,
  String.raw`(?<space>\bnamespace(?:\s+(?<name>[\w:]+))?\s*\{|\bextern\s+"C(?:\+\+)?"\s*\{)`,
  '[{}]',
  String.raw`(?<global>\b__global__\b)`,
  bounds,
  String.raw`(?<shared>(?:\b(?:extern|static|volatile)\s+)*\b__shared__\b[^;]*;)`,
];

function withoutCuda(preprocessed: string): { text: string; kernels: readonly FoundKernel[] } {
  const kernels = new Map<string, FoundKernel>();
  // For each open brace, the name of its namespace, or undefined if it opens another block.
  const open: (string | undefined)[] = [];
  let shared = 0;
  // The shared arrays outside of functions, by name: each function that uses one gets a declaration of it.
  const outside = new Map<string, string>();
  // The number of open braces at the body of such a function.
  let body: number | undefined;
  const text = preprocessed.replaceAll(new RegExp(words.join('|'), 'g'), (word, ...rest) => {
    const groups = rest.at(-1) as Readonly<Record<string, string | undefined>>;
    const at = rest.at(-3) as number;
    if (word === '{') {
      open.push(undefined);
      const declared = body === undefined ? declaredIn(preprocessed, at, outside) : '';
      if (declared !== '') {
        body = open.length;
        return `{ ${declared} {`;
      }
    } else if (groups.space !== undefined) open.push(groups.name ?? '');
    else if (word === '}') {
      if (body === open.length) [word, body] = ['}}', undefined];
      open.pop();
    } else if (groups.global !== undefined) {
      const found = kernelAt(preprocessed, at, open.filter(Boolean).join('::'));
      if (!found) return '';
      kernels.set(found.name, found);
      return found.bound;
    } else if (word.startsWith('__launch_bounds__')) {
      return '\n'.repeat(word.split('\n').length - 1);
    } else if (groups.shared !== undefined) {
      const lines = '\n'.repeat(word.split('\n').length - 1);
      const { type, variables } = sharedDeclaration(word, shared++);
      if (open.includes(undefined)) return `${type} ${[...variables.values()].join(' ')}${lines}`;
      for (const [name, declaration] of variables) outside.set(name, declaration);
      return type + lines;
    }
    return word;
  });
  return { text, kernels: [...kernels.values()] };
}

/**
 * The kernel that __global__ at a place declares, with the C++ definition of its constant `boundOf` ("" without launch bounds);
 * undefined for an explicit instantiation.
 */
function kernelAt(text: string, at: number, namespace: string): (FoundKernel & { bound: string }) | undefined {
  const before = text.slice(Math.max(0, ...[';', '}', '{'].map((end) => text.lastIndexOf(end, at) + 1)), at);
  let limits: string | undefined;
  const rest = withoutMarkers(text.slice(at + '__global__'.length, at + 20_000))
    .replaceAll(/__attribute__\s*\(\(.*?\)\)/g, '')
    .replace(new RegExp(`^([^;{]*?)(${bounds})`), (_, start: string, word: string) => {
      limits = word;
      return start;
    });
  const [, name, after] = /^[^()]*?(\w+)\s*\(([\s\S]*)/.exec(rest) ?? [];
  if (name === undefined || /\btemplate\s+(?!<)/.test(before)) return undefined;
  const length = lengthInBrackets(after!);
  const parameters = pieces(after!.slice(0, length)).map(nameIn);
  const full = namespace === '' ? name : `${namespace}::${name}`;
  const template = /\btemplate\s*<[\s\S]*>/.exec(withoutMarkers(before))?.[0].replaceAll(/\s+/g, ' ');
  // Only for the definition of a kernel: its declaration may be repeated, a constant may not.
  const isBounded = limits !== undefined && !/\bvoid\b/.test(before) && /^\)\s*\{/.test(after!.slice(length));
  const value = limits?.replace('__launch_bounds__', '::gpt2_emulator::launch_bounds').replaceAll(/\s+/g, ' ');
  const bound = isBounded ? `constexpr int ${boundOf(name)} = ${value}; ${template ?? ''}` : '';
  return { name: full, parameters: parameters.join(','), isTemplate: template !== undefined, isBounded, bound };
}

/** Turns "__shared__ float tile[32][33], sum;" into a struct and, for each variable, a reference to shared memory. */
function sharedDeclaration(statement: string, index: number): { type: string; variables: Map<string, string> } {
  const [, before, declared] = /^([\s\S]*?)__shared__([\s\S]*);$/.exec(withoutMarkers(statement))!;
  const volatile = /\bvolatile\b/.test(before!) ? 'volatile ' : '';
  if (/\bextern\b/.test(before!)) {
    const array = declared!.replaceAll(/__attribute__\s*\(\(.*?\)\)|\balignas\s*\([^)]*\)/g, '');
    const [, element, name] = /^([\s\S]*?)(\w+)\s*\[\s*\]\s*$/.exec(array) ?? [];
    if (name === undefined) return { type: statement, variables: new Map() };
    const pointer = `${volatile}${element} *const ${name} = ::gpt2_emulator::dynamic_shared<${volatile}${element}>();`;
    return { type: '', variables: new Map([[name, pointer]]) };
  }
  const type = `gpt2_shared_${index}`;
  const variables = pieces(declared!).map((piece, at): [string, string] => {
    const name = nameIn(piece);
    return [name, `auto &${name} = ::gpt2_emulator::shared<${type}, ${at}, decltype(${type}::${name})>("${name}");`];
  });
  return {
    type: `struct ${type} { ${volatile}${declared!.replaceAll(/\s+/g, ' ')}; };`,
    variables: new Map(variables),
  };
}

/** If a function begins at a brace: declarations of those `outside` variables that its body uses and no parameter hides. */
function declaredIn(text: string, at: number, outside: ReadonlyMap<string, string>): string {
  const head = withoutMarkers(
    text.slice(Math.max(0, ...[';', '}', '{'].map((end) => text.lastIndexOf(end, at - 1) + 1)), at),
  );
  if (outside.size === 0 || !/\)[\s\w]*$/.test(head)) return '';
  const body = text.slice(at + 1, at + 1 + lengthInBrackets(text.slice(at + 1), '{', '}'));
  const names = [...outside.keys()].filter((name) => {
    const word = new RegExp(`\\b${name}\\b`);
    return word.test(body) && !word.test(head);
  });
  return names.map((name) => outside.get(name)).join(' ');
}

/** Removes the preprocessor's line markers, which it inserts for words from a header, such as __align__. */
const withoutMarkers = (text: string): string => text.replaceAll(/^# \d+ .*$/gm, '');

/** The name that "const float *values" or "tile[32]" declares. */
const nameIn = (declared: string): string =>
  /(\w*)\s*$/.exec(declared.replace(/=[\s\S]*$/, '').replaceAll(/\[[^\]]*\]/g, ''))![1]!;

/** The parts of a list between commas. */
const pieces = (list: string): string[] => split(list, ',').filter((part) => part.trim() !== '');

/** The length of a text up to the bracket that closes it. */
function lengthInBrackets(text: string, opens = '(', closes = ')'): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === opens) depth++;
    if (text[i] === closes && depth-- === 0) return i;
  }
  return text.length;
}
