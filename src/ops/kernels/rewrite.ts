// Rewrites preprocessed CUDA as C++17 for the emulator on a CPU: launches become calls, shared variables become references to memory of
// the block, other device variables are put into linker sections, and __global__ is removed. Code of system headers stays unchanged.
import { CompileError } from '../../base/errors.ts';
import { endOf, split, strings } from './brackets.ts';
import { calleeStart, launchAt, linesOf } from './launches.ts';
import { withoutPtx } from './ptx.ts';
import { foreignCode } from './refusals.ts';

export interface FoundKernel {
  readonly name: string;
  /** Names of the kernel's parameters, separated by commas. */
  readonly parameters: string;
  readonly isTemplate: boolean;
  /** Whether the kernel has __launch_bounds__. If so, the constant that `boundOf` names holds its largest number of threads. */
  readonly isBounded: boolean;
}

/** The name of the C++ constant that holds a kernel's __launch_bounds__: "ns::gpt2_threads_scale<256>" for "ns::scale<256>". */
export const boundOf = (kernel: string): string => kernel.replace(/\w+(<.*)?$/, 'gpt2_threads_$&');

/** A line marker of the preprocessor, `# LINE "FILE" FLAGS`. Flag 3 means a system header. */
const marker = /^# (\d+) "(.*?)"(.*)$/;

/**
 * Takes system headers out of preprocessed text: a line `mark(index)` replaces each sequence of headers. Also joins lines that the
 * preprocessor broke at macros from these headers, such as NULL.
 */
function withoutHeaders(preprocessed: string): { text: string; headers: string[] } {
  const lines = preprocessed.split('\n');
  const isSystem = (flags: string) => /\b3\b/.test(flags);
  const users = new Set(
    lines.flatMap((each) => {
      const found = marker.exec(each);
      return found && !isSystem(found[3]!) ? [found[2]!] : [];
    }),
  );
  const headers: string[][] = [];
  const out: string[] = [];
  // File name and line number of the next line of text. After a header, the line number is unknown, and 0 here.
  let [file, line, inHeader] = ['', 0, false];
  for (const each of lines) {
    const [, number, name, flags] = marker.exec(each) ?? [];
    if (number === undefined) {
      if (inHeader) headers.at(-1)!.push(each);
      else if (line < 0) {
        out[out.length - 1] += ` ${each}`;
        line = -line;
      } else out.push(each);
      if (!inHeader) line++;
      continue;
    }
    if (isSystem(flags!) && !users.has(name!)) {
      if (!inHeader) out.push(mark(headers.push([]) - 1));
      headers.at(-1)!.push(each);
      [inHeader, line] = [true, 0];
      continue;
    }
    const lines = name === file && !inHeader && !out.at(-1)?.startsWith('#') ? Number(number) - line : -2;
    if (lines >= 0 && lines < 100) out.push(...Array<string>(lines).fill(''));
    else if (lines !== -1) out.push(`# ${number} "${name}"${flags!.replaceAll(/ [34]\b/g, '')}`);
    [file, inHeader] = [name!, false];
    // A negative line number means that the last line of `out` is incomplete: the next text is joined to it.
    line = lines === -1 ? -Number(number) : Number(number);
  }
  return { text: out.join('\n'), headers: headers.map((each) => each.join('\n')) };
}

const mark = (index: number): string => `#gpt2-header ${index}`;

/** A pattern of __launch_bounds__(...), whose arguments may have two levels of nested brackets. */
const bounds = String.raw`\b__launch_bounds__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)`;
const words = [
  strings,
  String.raw`(?<space>\bnamespace(?:\s+(?<name>[\w:]+))?\s*\{|\bextern\s+"C(?:\+\+)?"\s*\{)`,
  '(?<end>[{};]|^#.*$)',
  String.raw`(?<global>\b__global__\b)`,
  bounds,
  String.raw`(?<shared>\b__shared__\b)`,
  String.raw`(?<noinline>(?<!\(\s*)\b__noinline__\b)`,
  String.raw`(?<launch><<\s*<)`,
  // In cudaLaunchKernel((void *)kernel, ...), removes the cast to void *, because the emulator needs the kernel's type.
  String.raw`(?<call>\blaunch_function<\w+>\s*\(\s*"[^"]*"\s*,\s*)(?:\(\s*(?:const\s+)?void\s*\*\s*\)|(?:reinterpret|static)_cast\s*<\s*(?:const\s+)?void\s*\*\s*>)`,
];

/**
 * Rewrites a preprocessed file as C++, and lists the file's kernels.
 * @param how `isClang`: whether the compiler is clang; `isProgram`: whether the file may have host code
 * @throws CompileError for code that does not run on a CPU
 */
export function rewrite(
  preprocessed: string,
  how: { isClang: boolean; isProgram: boolean },
): { text: string; kernels: readonly FoundKernel[] } {
  const { text: source, headers } = withoutHeaders(preprocessed);
  const placeOf = (offset: number) => placeAt(source, offset);
  const foreign = how.isProgram ? undefined : foreignCode(source, placeOf);
  if (foreign) throw new CompileError(foreign);
  // The same attributes as in the macro GPT2_NO_CHECKS (kernel.h), which would have no effect in preprocessed text.
  const attributes = how.isClang
    ? 'convergent, no_sanitize("undefined"), disable_sanitizer_instrumentation'
    : 'no_sanitize("thread", "undefined")';
  const code = inSections(withoutPtx(source, placeOf));
  const { text, kernels } = withoutCuda(code, `__attribute__((${attributes}))`, how.isProgram);
  const header = (index: string) => headers[Number(index)]!.replaceAll(/\b__(?:device|constant|managed)__\b/g, '');
  return { text: text.replaceAll(/^#gpt2-header (\d+)$/gm, (_, index: string) => header(index)), kernels };
}

/** __device__, __constant__ or __managed__. Group `variable` matches a variable that follows: a name before ; = { [ or a value. */
const qualified = new RegExp(
  String.raw`${strings}|\b__(?<kind>device|constant|managed)__\b(?=(?<variable>(?:(?:\b(?:__attribute__|alignas|decltype|sizeof)|[<,])\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[\w\s:<>,*&+/-])*?(?:\w|(?<=\)))\s*(?:[;={[]|\(\s*(?:[*&\d.-]|true|false)))?)`,
  'g',
);

/** Puts each device variable into a numbered section of its kind, because GCC refuses constants and variables in one section. */
function inSections(source: string): string {
  return source.replaceAll(qualified, (whole, _raw, kind?: string, variable = '', at = 0) => {
    if (kind === undefined) return whole;
    const statement = /[^;{}]*$/.exec(source.slice(Math.max(0, at - 300), at))![0] + variable;
    // No section for extern declarations and operators, nor for definitions of S::x, which get the section of the declaration in S.
    const isElsewhere = /\bextern\b.*[;[]$|\boperator\b|::\s*\w+\s*[;={[]$/s.test(statement);
    const isOther = variable === '' || (kind === 'device' && /__(constant|managed)__/.test(statement));
    return isElsewhere || isOther ? '' : `__attribute__((section(".gpt2_${kind}.${at}")))`;
  });
}

function withoutCuda(
  source: string,
  unchecked: string,
  isProgram: boolean,
): { text: string; kernels: readonly FoundKernel[] } {
  const kernels = new Map<string, FoundKernel>();
  // One element for each open brace: the name of the namespace that it opens, or undefined for any other block.
  const open: (string | undefined)[] = [];
  let shared = 0;
  // Declarations, by name, of the __shared__ arrays outside of functions. Each function that uses an array gets its declaration.
  const outside = new Map<string, string>();
  // The number of open braces inside a function that gets declarations from `outside`; undefined elsewhere.
  let body: number | undefined;
  // The rewritten text, the start of the current statement in this text, and the offset in the source that rewriting has reached.
  let [out, statement, at] = ['', 0, 0];
  const word = new RegExp(words.join('|'), 'gm');
  for (let found = word.exec(source); found; found = word.exec(source)) {
    const groups = found.groups!;
    const here = found.index;
    out += source.slice(at, here);
    at = word.lastIndex;
    const text = found[0];
    if (groups.end !== undefined) {
      if (text === '{') {
        open.push(undefined);
        const declared = body === undefined ? declaredIn(source, here, out.slice(statement), outside) : '';
        if (declared !== '') body = open.length;
        out += declared === '' ? text : `{ ${declared} {`;
      } else if (text === '}') {
        out += body === open.length ? '}}' : text;
        if (body === open.length) body = undefined;
        open.pop();
      } else out += text;
      statement = out.length;
    } else if (groups.space !== undefined) {
      open.push(groups.name ?? '');
      out += text;
      statement = out.length;
    } else if (groups.global !== undefined) {
      // Kernels are listed only for a library, because a program has no table of kernels.
      const where = open.filter(Boolean).join('::');
      const declared = isProgram ? undefined : kernelAt(source, here, out.slice(statement), where);
      if (!declared) continue;
      kernels.set(declared.name, declared);
      const start = statement + /^\s*/.exec(out.slice(statement))![0].length;
      out = out.slice(0, start) + declared.bound + out.slice(start);
    } else if (text.startsWith('__launch_bounds__')) out += linesOf(text);
    else if (groups.noinline !== undefined) out += '__attribute__((noinline))';
    else if (groups.call !== undefined) out += groups.call + linesOf(text.slice(groups.call.length));
    else if (groups.shared !== undefined) {
      const end = endOf(source, at, ';') + 1;
      statement += /^\s*/.exec(out.slice(statement))![0].length;
      const whole = out.slice(statement) + source.slice(here, end);
      const { type, variables } = sharedDeclaration(whole, shared++);
      out = out.slice(0, statement) + type;
      if (open.includes(undefined)) out += [...variables.values()].join(' ');
      else for (const [name, declaration] of variables) outside.set(name, declaration);
      out += linesOf(whole);
      word.lastIndex = at = end;
      statement = out.length;
    } else if (groups.launch !== undefined) {
      const start = calleeStart(out);
      const made = launchAt(source, at, out.slice(start), unchecked);
      if (!made) out += text;
      else {
        out = out.slice(0, start) + made.call;
        word.lastIndex = at = made.end;
      }
    } else out += text;
  }
  return { text: out + source.slice(at), kernels: [...kernels.values()] };
}

/** The place of an offset in preprocessed text, as "file:line" of the original source. */
function placeAt(text: string, offset: number): string {
  const before = text.slice(0, offset).split('\n');
  const from = before.findLastIndex((line) => marker.test(line));
  const [, line, file] = marker.exec(before[from] ?? '') ?? [];
  return `${file}:${Number(line) + before.length - 2 - from}`;
}

/**
 * The kernel that the word __global__ at offset `at` declares, with the C++ definition of its constant `boundOf` ("" without launch
 * bounds). Undefined for an explicit instantiation or a specialization of a template.
 */
function kernelAt(text: string, at: number, before: string, namespace: string) {
  let limits: string | undefined;
  const rest = withoutMarkers(text.slice(at + '__global__'.length, at + 20_000))
    .replaceAll(/__attribute__\s*\(\(.*?\)\)/g, '')
    .replace(new RegExp(`^([^;{]*?)(${bounds})`), (_, start: string, word: string) => {
      limits = word;
      return start;
    });
  const [, name, after] = /^[^()]*?(\w+)\s*\(([\s\S]*)/.exec(rest) ?? [];
  if (name === undefined || /\btemplate\s+(?!<)/.test(before)) return undefined;
  const length = endOf(after!, 0, ')');
  const full = namespace === '' ? name : `${namespace}::${name}`;
  const template = /\btemplate\s*<[\s\S]*>/.exec(withoutMarkers(before))?.[0].replaceAll(/\s+/g, ' ');
  // The constant is defined only with the kernel's definition: declarations may be repeated, but constants may not.
  const isBounded = limits !== undefined && /^\)\s*\{/.test(after!.slice(length));
  const value = limits?.replace('__launch_bounds__', '::gpt2_emulator::launch_bounds').replaceAll(/\s+/g, ' ');
  const bound = isBounded ? `${template ?? ''} constexpr int ${boundOf(name)} = ${value}; ` : '';
  const parameters = pieces(after!.slice(0, length)).map(nameIn).join(',');
  return { name: full, parameters, isTemplate: template !== undefined, isBounded, bound };
}

/** Turns "__shared__ float tile[32][33], sum;" into a struct with these members, and a reference to shared memory for each member. */
function sharedDeclaration(statement: string, index: number): { type: string; variables: Map<string, string> } {
  const whole = withoutMarkers(statement).slice(0, -1);
  const volatile = /\bvolatile\b/.test(whole) ? 'volatile ' : '';
  const declared = whole.replaceAll(/\b(extern|static|volatile|__shared__)\b/g, '').trim();
  if (/\bextern\b/.test(whole)) {
    const array = declared.replaceAll(/__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\balignas\s*\([^)]*\)/g, '');
    // Dynamic shared memory: "half tiles[]" becomes a pointer to half, "half tiles[][64]" a pointer to rows of 64.
    const [, element, name, row] = /^([\s\S]*?)(\w+)\s*\[\s*\]((?:\s*\[[^\]]*\])*)\s*$/.exec(array) ?? [];
    if (name === undefined) return { type: statement, variables: new Map() };
    const memory = `::gpt2_emulator::dynamic_shared<${volatile}${element}>()`;
    const pointer = row
      ? `${volatile}${element} (*const ${name})${row} = reinterpret_cast<${volatile}${element} (*)${row}>(${memory});`
      : `${volatile}${element} *const ${name} = ${memory};`;
    return { type: '', variables: new Map([[name, pointer]]) };
  }
  const type = `gpt2_shared_${index}`;
  const variables = pieces(declared).map((piece, at): [string, string] => {
    const name = nameIn(piece);
    return [name, `auto &${name} = ::gpt2_emulator::shared<${type}, ${at}, decltype(${type}::${name})>("${name}");`];
  });
  return { type: `struct ${type} { ${volatile}${declared.replaceAll(/\s+/g, ' ')}; };`, variables: new Map(variables) };
}

/** If a function's body begins at `at`: declarations of the `outside` variables that it uses and no parameter hides. Else "". */
function declaredIn(text: string, at: number, statement: string, outside: ReadonlyMap<string, string>): string {
  const head = withoutMarkers(statement);
  if (outside.size === 0 || !/\)[\s\w]*$/.test(head)) return '';
  const body = text.slice(at + 1, endOf(text, at + 1, '}'));
  const names = [...outside.keys()].filter((name) => {
    const word = new RegExp(`\\b${name}\\b`);
    return word.test(body) && !word.test(head);
  });
  return names.map((name) => outside.get(name)).join(' ');
}

const withoutMarkers = (text: string): string => text.replaceAll(/^# \d+ .*$/gm, '');

/** The name in a declaration: "values" in "const float *values", "tile" in "tile[32]", "rows" in "(*rows)[4]". */
const nameIn = (declared: string): string =>
  (/\(\s*\*\s*(\w+)/.exec(declared) ??
    /(\w*)\s*$/.exec(declared.replace(/=[\s\S]*$/, '').replaceAll(/\[[^\]]*\]/g, '')))![1]!;

const pieces = (list: string): string[] => split(list, ',').filter((part) => part.trim() !== '');
