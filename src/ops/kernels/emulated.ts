// Compiles CUDA source for the CPU library: with the C++ compiler of this machine, to a shared library that cuda/cpu/emulator loads.
// cuda/emulator/kernel.h says what CUDA's words mean there; what a macro cannot say is rewritten here, after the preprocessor.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CompileError, Gpt2Error, gpt2Error } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';
import { TemporaryFolder } from '../../native/temporary-folder.ts';
import { type Compiler, hostCode, placeOf, type Source } from './compiler.ts';
import { split } from './signature.ts';

const headers = join(packageRoot, 'cuda/emulator');

/** What comes before a source, where its includes are, and the contents of all headers there. */
export const emulated = {
  prelude: '#include "kernel.h"\n',
  folders: [join(headers, 'include'), headers],
  headers: (): string[] =>
    readdirSync(headers, { recursive: true, encoding: 'utf8' })
      .sort()
      .map((name) => join(headers, name))
      .flatMap((path) => (statSync(path).isFile() ? [path, readFileSync(path, 'utf8')] : [])),
};

/** @throws Gpt2Error if there is no C++ compiler, saying how to get one */
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
    // Lines are named as the source is, whatever this folder.
    `-fdebug-prefix-map=${process.cwd()}=.`,
    // Inlined copies keep the line of the source. Contraction to fused multiply-add is what nvcc does.
    ...(checks ? ['-O1', sanitizers, '-fsanitize-recover=bounds,alignment,integer-divide-by-zero'] : ['-O2']),
    ...['-ffp-contract=fast', '-fno-strict-aliasing', '-fno-math-errno', '-fstack-clash-protection'],
    // Short functions of the C++ library are inlined, so that errors have the user's line; and memcpy and malloc are always called.
    ...(checks
      ? ['-finline-small-functions', ...[...copies, 'malloc', 'free'].map((name) => `-fno-builtin-${name}`)]
      : []),
    ...['-S', '-o', '-', '-'],
  ]);
  run(program, source, withGaps(assembly), ['-x', 'assembler', '-c', '-o', `${out}.o`, '-']);
  // The sanitizer's library is left out: cuda/emulator/checks.h has what it would.
  const wraps = checks ? wrappedFunctions.map((name) => `-Wl,--wrap=${name}`) : [];
  run(program, source, '', ['-shared', ...wraps, '-o', out, `${out}.o`]);
  return readFileSync(out);
}

const copies = ['memcpy', 'memmove', 'memset'];
/** Functions whose calls cuda/emulator/checks.h receives: those of memory, and C++'s new and delete, by their names for the linker. */
const wrappedFunctions = [...copies, 'malloc', 'free', '_Znwm', '_Znam', '_ZdlPv', '_ZdaPv', '_ZdlPvm', '_ZdaPvm'];

/**
 * Assembly with 64 bytes around every variable and constant, so that an access a little past the end of one, by a pointer, is in none and
 * the emulator reports it. Compilers cannot be asked for this without the run-time library of AddressSanitizer.
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
    // Without a value, in no section yet: ".local name", ".comm name,bytes,alignment".
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
  // After the last one of a section, too.
  return [...lines, ...[...sections].map((each) => `${each}\n.zero 64`), ''].join('\n');
}

function run(program: string, { name, text }: Source, input: string, options: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, options, {
    input,
    encoding: 'utf8',
    maxBuffer: 256 << 20,
    env: { ...process.env, LC_ALL: 'C' },
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

/** The compiler does not find a header of CUDA or of a library that comes with it. */
const missingHeader =
  /^(.*?:\d+):\d+: fatal error: '?((?:cu(?:da|b|rand|blas|dnn|fft|sparse|solver|tlass|te)|thrust|cooperative_groups|nv)[\w./]*)'?(?:: No such file| file not found)/m;

/** The compiler's messages, with the lines of a source that is no file, which the compiler cannot show. */
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
  /** Names of its parameters, separated by commas. */
  readonly parameters: string;
  readonly isTemplate: boolean;
  /** Whether a constant has its largest number of threads (`boundOf`). */
  readonly isBounded: boolean;
}

/** The constant that says how many threads a kernel's __launch_bounds__ allow: a template if the kernel is one. */
const boundOf = (kernel: string): string => kernel.replace(/\w+(<.*)?$/, 'gpt2_threads_$&');

/**
 * Preprocessed CUDA as C++: shared arrays are the block's, and a table of the kernels comes at the end.
 * @throws CompileError for inline PTX, and for code of the host
 */
function emulatedSource(preprocessed: string, { text: source, name, instantiate }: Source, checks: boolean): string {
  refuseForeign(preprocessed);
  const { text, kernels } = withoutCuda(preprocessed);
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
  // An error that shows here, such as a missing bracket, is shown at the source's last line.
  const end = `# ${source.trimEnd().split('\n').length} ${JSON.stringify(name)}\n`;
  return `${text}\n${table.replaceAll(/^/gm, end)}`;
}

/** What of a user's file is not for a kernel on a CPU: the system's headers have assembly, which names symbols. */
const foreign: readonly (readonly [RegExp, string])[] = [
  [/\b(asm|__asm__|__asm)\b/, 'inline PTX does not run on a CPU: run this kernel on a GPU, or write it without'],
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

/** Its arguments may have brackets in brackets. */
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
  // The names of the namespaces that are open, and undefined for every other brace.
  const open: (string | undefined)[] = [];
  let shared = 0;
  // The shared arrays outside of functions, by name: a function that names one declares it.
  const outside = new Map<string, string>();
  // How many braces are open in a function that does.
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
 * The kernel that __global__ at a place declares, and as C++ the constant of its `boundOf`, if it has one; undefined for an explicit
 * instantiation.
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
  // A declaration may be repeated, a constant may not.
  const isBounded = limits !== undefined && !/\bvoid\b/.test(before) && /^\)\s*\{/.test(after!.slice(length));
  const value = limits?.replace('__launch_bounds__', '::gpt2_emulator::launch_bounds').replaceAll(/\s+/g, ' ');
  const bound = isBounded ? `constexpr int ${boundOf(name)} = ${value}; ${template ?? ''}` : '';
  return { name: full, parameters: parameters.join(','), isTemplate: template !== undefined, isBounded, bound };
}

/** "static __shared__ float tile[32][33], sum;" as a type, and each variable as a reference to a place in the block's memory. */
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

/** Declarations of the variables that a function names, if the brace at a place begins one and no parameter hides them. */
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

/** Without the lines in which the preprocessor says that a word comes from a header: those of __align__, for example. */
const withoutMarkers = (text: string): string => text.replaceAll(/^# \d+ .*$/gm, '');

/** The name that "const float *values" or "tile[32]" declares. */
const nameIn = (declared: string): string =>
  /(\w*)\s*$/.exec(declared.replace(/=[\s\S]*$/, '').replaceAll(/\[[^\]]*\]/g, ''))![1]!;

/** The parts of a list between commas. */
const pieces = (list: string): string[] => split(list, ',').filter((part) => part.trim() !== '');

/** How much of a text lies before the bracket that closes it. */
function lengthInBrackets(text: string, opens = '(', closes = ')'): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === opens) depth++;
    if (text[i] === closes && depth-- === 0) return i;
  }
  return text.length;
}
