// Rewrites preprocessed CUDA as C++17: launches become calls, shared variables become references to the block's memory, the device's
// other variables get sections, and __global__ is removed. Code of the system's headers stays unchanged.
import { CompileError } from '../../base/errors.ts';
import { endOf, split, strings } from './brackets.ts';
import { withoutPtx } from './ptx.ts';
import { foreignCode } from './refusals.ts';

export interface FoundKernel {
  readonly name: string;
  /** Names of the kernel's parameters, separated by commas. */
  readonly parameters: string;
  readonly isTemplate: boolean;
  /** Whether a constant (`boundOf`) holds the kernel's largest number of threads. */
  readonly isBounded: boolean;
}

/** The name of the constant with a kernel's largest number of threads (__launch_bounds__); a template if the kernel is one. */
export const boundOf = (kernel: string): string => kernel.replace(/\w+(<.*)?$/, 'gpt2_threads_$&');

/** The preprocessor's line marker: a line, a file, and flags; flag 3 marks a header of the system. */
const marker = /^# (\d+) "(.*?)"(.*)$/;

/**
 * Takes the system's headers out of preprocessed text, each run of them replaced by a line `mark(index)`, and joins the lines
 * that the preprocessor broke around words from these headers, such as NULL.
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
  // The place of the next line of text; the place is unknown after a header.
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
    // Negative: the line is not complete, so the next text joins it.
    line = lines === -1 ? -Number(number) : Number(number);
  }
  return { text: out.join('\n'), headers: headers.map((each) => each.join('\n')) };
}

const mark = (index: number): string => `#gpt2-header ${index}`;

/** __launch_bounds__, whose arguments may have brackets in brackets. */
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
  // A kernel launched by its address has its type in its name. A cast to void * would hide the type.
  String.raw`(?<call>\blaunch_function<\w+>\s*\(\s*"[^"]*"\s*,\s*)(?:\(\s*(?:const\s+)?void\s*\*\s*\)|(?:reinterpret|static)_cast\s*<\s*(?:const\s+)?void\s*\*\s*>)`,
];

/**
 * Rewrites a preprocessed file as C++, and lists its kernels.
 * @param how isClang: whether clang compiles it; isProgram: whether the file may have host code
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
  // The attributes of GPT2_NO_CHECKS in kernel.h: preprocessed text has no macros.
  const attributes = how.isClang
    ? 'convergent, no_sanitize("undefined"), disable_sanitizer_instrumentation'
    : 'no_sanitize("thread", "undefined")';
  const code = inSections(withoutPtx(source, placeOf));
  const { text, kernels } = withoutCuda(code, `__attribute__((${attributes}))`, how.isProgram);
  const header = (index: string) => headers[Number(index)]!.replaceAll(/\b__(?:device|constant|managed)__\b/g, '');
  return { text: text.replaceAll(/^#gpt2-header (\d+)$/gm, (_, index: string) => header(index)), kernels };
}

/** A word before a variable or function. A value, a size or the end follows a variable's name, a parenthesis a function's. */
const qualified = new RegExp(
  String.raw`${strings}|\b__(?<kind>device|constant|managed)__\b(?=(?<variable>(?:(?:\b(?:__attribute__|alignas|decltype|sizeof)|[<,])\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[\w\s:<>,*&+/-])*?(?:\w|(?<=\)))\s*(?:[;={[]|\(\s*(?:[*&\d.-]|true|false)))?)`,
  'g',
);

/** Puts variables of the device into sections by their kind, and by numbers: GCC refuses constants and others in one section. */
function inSections(source: string): string {
  return source.replaceAll(qualified, (whole, _raw, kind?: string, variable = '', at = 0) => {
    if (kind === undefined) return whole;
    const statement = /[^;{}]*$/.exec(source.slice(Math.max(0, at - 300), at))![0] + variable;
    // The definition of S::x has the section of its declaration in S.
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
  // For each open brace, the name of its namespace, or undefined if it opens another block.
  const open: (string | undefined)[] = [];
  let shared = 0;
  // The shared arrays outside of functions, by name: each function that uses one gets a declaration of it.
  const outside = new Map<string, string>();
  // The number of open braces at the body of such a function.
  let body: number | undefined;
  // The rewritten text, the start of the statement in it, and the place in the source.
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
      // Only a library has a table of kernels.
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

const linesOf = (text: string): string => '\n'.repeat(text.split('\n').length - 1);

/** "file:line" of an offset of the text. */
function placeAt(text: string, offset: number): string {
  const before = text.slice(0, offset).split('\n');
  const from = before.findLastIndex((line) => marker.test(line));
  const [, line, file] = marker.exec(before[from] ?? '') ?? [];
  return `${file}:${Number(line) + before.length - 2 - from}`;
}

/** The start of the expression at a text's end: of "ns::scale<float, 256>" in "return ns::scale<float, 256>". */
function calleeStart(text: string): number {
  let at = text.trimEnd().length;
  for (;;) {
    const pairs = { '>': '<', ')': '(', ']': '[' }[text[at - 1] ?? ''];
    if (pairs !== undefined) {
      let [depth, angles] = [0, 0];
      do {
        const letter = text[--at]!;
        if (')]'.includes(letter)) depth++;
        if ('(['.includes(letter)) depth--;
        // In brackets a > compares.
        if (pairs === '<' && depth === 0) angles += { '>': 1, '<': -1 }[letter] ?? 0;
      } while (depth + angles > 0 && at > 0);
      at = text.slice(0, at).trimEnd().length;
      if (pairs === '(') {
        // "(*kernel)<<<" is all in brackets; in "table(i)<<<" a name precedes them.
        if (!/\w$/.test(text.slice(0, at)) || /\b(return|else|do)$/.test(text.slice(0, at))) return at;
      }
      continue;
    }
    at -= /\w*$/.exec(text.slice(Math.max(0, at - 200), at))![0].length;
    const joint = /(::|\.|->)\s*$/.exec(text.slice(Math.max(0, at - 50), at));
    if (!joint) return at;
    at = at - joint[0].length;
    at = text.slice(0, at).trimEnd().length;
    if (!/[\w>)\]]$/.test(text.slice(0, at))) return at;
  }
}

/** Whether a name is a kernel's, and not also a variable's ("auto name = ...", "void (*name)(float *)"), which may hide the kernel. */
function isKernelName(source: string, name: string): boolean {
  const kernels = source.match(RegExp(`(template\\b[^;{}]*)?__global__[^;{}]*\\b${name}\\s*\\([^)]*`, 'g')) ?? [];
  // A template, or one of several functions of a name, has no address without its types.
  const isTyped = new Set(kernels).size === 1 && !kernels[0]!.startsWith('template');
  return kernels.length > 0 && !(isTyped && RegExp(`(\\bauto\\s*[*&]?|\\(\\s*\\*)\\s*${name}\\b`).test(source));
}

/** The call that replaces a launch, and the launch's end; undefined if it is no launch. `at` is after "<<<". */
function launchAt(source: string, at: number, callee: string, unchecked: string) {
  const end = endOf(source, at, '>>>');
  const after = /^>>\s*>\s*\(/.exec(source.slice(end, end + 100));
  if (!after) return undefined;
  const start = end + after[0].length;
  const last = endOf(source, start, ')');
  const shape = source.slice(at, end);
  // __null in a variable is an integer, nullptr stays a pointer.
  const args = split(source.slice(start, last), ',').map((arg) => arg.replace(/^(\s*)__null(\s*)$/, '$1nullptr$2'));
  const name = JSON.stringify(callee.replaceAll(/\s+/g, ' ').trim());
  const [, called] = /(?:^|::)\s*(\w+)\s*(?:<.*)?$/s.exec(callee.trim()) ?? [];
  const isKernel = called && isKernelName(source, called);
  // A pointer to a kernel is an argument, too: launches of two kernels differ.
  const [pointer, kernel, first] = isKernel
    ? ['', callee, '']
    : ['auto &gpt2_k, ', '::gpt2_emulator::called(gpt2_k)', `, ${callee}`];
  // A literal 0 may be a null pointer, which no variable is.
  const isZero = (arg: string) => arg.trim() === '0';
  const isPack = !args.some(isZero) || args.join().includes('...');
  const parameters = isPack ? 'auto &...gpt2_a' : args.map((_, i) => `auto &gpt2_a${i}`).join(', ');
  const values = isPack ? 'gpt2_a...' : args.map((arg, i) => (isZero(arg) ? '0' : `gpt2_a${i}`)).join(', ');
  const body = `[&](${pointer}${parameters}) ${unchecked} { ${kernel}(${values}); }`;
  const passed = first + (args.join(',').trim() === '' ? linesOf(args.join()) : `, ${args.join(',')}`);
  return {
    end: last + 1,
    call: `::gpt2_emulator::launch(${name}, ${body}, ::gpt2_emulator::Shape(${shape})${passed})`,
  };
}

/**
 * The kernel that __global__ at a place declares, with the C++ definition of its constant `boundOf` ("" without launch bounds);
 * undefined for an explicit instantiation or a specialization.
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
  // Only for a kernel's definition: a declaration may be repeated, a constant may not.
  const isBounded = limits !== undefined && /^\)\s*\{/.test(after!.slice(length));
  const value = limits?.replace('__launch_bounds__', '::gpt2_emulator::launch_bounds').replaceAll(/\s+/g, ' ');
  const bound = isBounded ? `${template ?? ''} constexpr int ${boundOf(name)} = ${value}; ` : '';
  const parameters = pieces(after!.slice(0, length)).map(nameIn).join(',');
  return { name: full, parameters, isTemplate: template !== undefined, isBounded, bound };
}

/** Turns "__shared__ float tile[32][33], sum;" into a struct and, for each variable, a reference to shared memory. */
function sharedDeclaration(statement: string, index: number): { type: string; variables: Map<string, string> } {
  const whole = withoutMarkers(statement).slice(0, -1);
  const volatile = /\bvolatile\b/.test(whole) ? 'volatile ' : '';
  const declared = whole.replaceAll(/\b(extern|static|volatile|__shared__)\b/g, '').trim();
  if (/\bextern\b/.test(whole)) {
    const array = declared.replaceAll(/__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\balignas\s*\([^)]*\)/g, '');
    // "half tiles[][64]" is a pointer to rows.
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

/** If a function begins at a brace: declarations of those `outside` variables that its body uses and no parameter hides. */
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

/** The name that "const float *values", "tile[32]" or "(*rows)[4]" declares. */
const nameIn = (declared: string): string =>
  /(\w*)[\s)]*$/.exec(declared.replace(/=[\s\S]*$/, '').replaceAll(/\[[^\]]*\]/g, ''))![1]!;

const pieces = (list: string): string[] => split(list, ',').filter((part) => part.trim() !== '');
