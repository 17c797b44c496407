// Error messages for CUDA code that cannot be emulated on a CPU, in place of the compiler's messages about this code.
import { distance } from '../../base/checks/nearest.ts';
import { hostCode } from './compiler.ts';

/** The message for a feature that is not emulated. @param place "file:line" @param what the feature, such as a header or function */
export const refusal = (place: string, what: string): string =>
  `${place}: error: ${what} is not emulated on a CPU: run this file on a GPU, or rewrite it without this`;

/** The preprocessor's message about a missing header. Groups: "file:line" and the header. */
const missingHeader = /^(.*?:\d+):\d+: fatal error: '?([\w./+-]+)'?(?:: No such file| file not found)/m;

/** Names of headers of CUDA, and of libraries that programs for GPUs use. */
const gpuHeader =
  /^(cuda(\/|_\w+_interop|_fp|EGL|GL)|cu(b|blas|Complex|dnn|fft|rand|solver|sparse|te|tlass)|nv|thrust|cooperative_groups|nccl|mpi|torch|ATen|c10|GL|EGL|helper_gl)/;

/** A compiler's error in a header of a GPU library, which is installed but cannot be emulated. Group 1 is the library's name. */
const ofLibrary =
  /^(?:.*\/)?(thrust|cub|cutlass|torch|ATen|c10|nccl|mpi|cudnn|cufft|cusolver|cusparse)[\w.]*(?:\/.*)?:\d+:\d+: (?:fatal )?error: /m;

/** The linker's message about a name that is used but not defined in any file. */
const undefinedName = /^(?:\S*ld: )?(?:\.\/)?(\S.*?:\d+): (undefined reference to) [`'](.*)'$/m;

/** The messages of GCC and clang about a name that is not declared. */
const unknownName =
  /^(.*?:\d+):\d+: error: .*?'(?:struct |const |class )*(?:\w*::)*(\w+)[^']*' (?:was not declared|does not name a type|has not been declared|is not a member|has no member|is not a class)|^(.*?:\d+):\d+: error: (?:use of undeclared identifier|unknown type name|no member named|no type named|no template named) '(\w+)/gm;

/** Patterns of CUDA's names that are not emulated, each with an addition to the message: the area of CUDA, or "". */
const parts: readonly (readonly [RegExp, string])[] = [
  [/^(texture|tex[123]D|surf|cuda\w*(Texture|Surface|Array|Mipmap|Channel|ResourceDesc))/, ' (textures and surfaces)'],
  [/^cuda(Graphics|GL|EGL)/, ' (OpenGL)'],
  [/^cuda(Graph|Stream\w*Capture)/, ' (graphs of CUDA)'],
  [/^CU(BLAS|RAND|DNN|FFT|SPARSE|SOLVER)/, ''],
  [/^(cu[A-Z]|CU[a-z_]*|CU[A-Z_]+$)/, ' (the driver API)'],
  [/^(cu|CU|__|nvcuda|wmma|nccl|nvrtc|torch|at$|atomic)/, ''],
];

/** The message for the first error in a compiler's log that concerns code that is not emulated; undefined if there is none. */
export function refusalOf(log: string, name: string, source: string): string | undefined {
  const [, place, header] = missingHeader.exec(log) ?? [];
  if (header !== undefined)
    return gpuHeader.test(header)
      ? refusal(place!, header)
      : `${place}: error: the header ${header} is missing: add its folder to the include folders`;
  const [, use, problem, missing] = undefinedName.exec(log) ?? [];
  if (use !== undefined)
    return `${use}: error: ${problem} ${missing}: name the file that defines it, too, or remove its use`;
  const lines = source.split('\n');
  const library = ofLibrary.exec(log)?.[1];
  const included = lines.findIndex((line) => library && /^\s*#\s*include/.test(line) && line.includes(library));
  if (included >= 0) return refusal(`${name}:${included + 1}`, library!);
  for (const { 1: gcc, 2: gccName, 3: clang, 4: clangName, index } of log.matchAll(unknownName)) {
    const [word, place] = [(gccName ?? clangName)!, (gcc ?? clang)!];
    const line = place.startsWith(`${name}:`) ? lines[Number(place.slice(name.length + 1)) - 1] : undefined;
    const shown = line === undefined ? '' : `\n  ${line.trim()}`;
    // Repeats the compiler's suggestion only if it is the same name but for case, s and z. Others, like cudaMemcpy2D, may be wrong.
    const near = /^.*did you mean '(\w+)'/.exec(log.slice(index))?.[1];
    const folded = (text: string) => text.toLowerCase().replaceAll('z', 's');
    if (near && folded(near) === folded(word)) {
      return `${place}: error: there is no ${word}; did you mean ${near}?${shown}`;
    }
    const part = parts.find(([pattern]) => pattern.test(word))?.[1];
    if (part === undefined) continue;
    const advice =
      near && distance(near, word) === 1 && near.length !== word.length ? `; or did you mean ${near}?` : '';
    return refusal(place, word + part) + advice + shown;
  }
  return undefined;
}

/** Removes messages about the emulator's headers from a compiler's log. Returns the log unchanged if no error is in file `name`. */
export function readable(log: string, name: string, headers: string): string {
  const inner =
    /^In file included from |: In (?:instantiation|substitution) of |^\S+:\d+(?::\d+)?:\s+(?:recursively )?required (?:from|by) /;
  const messages = log.split(/\n(?=\S)/);
  const kept = messages.filter((each) => !inner.test(each) && !each.startsWith(headers));
  if (!kept.some((each) => each.startsWith(`${name}:`) && each.includes(' error: '))) return log;
  // Macros of the emulator replace cudaMalloc and the like by functions that also take the text of the first argument.
  return kept.join('\n').replaceAll(/gpt2_(cuda\w+)\(const char ?\[\d+\], /g, '$1(');
}

/** Calls of C functions that compile for a CPU, but do not exist on a GPU. */
const hostFunction = /(?<![\w.>])(?:str(?:n?cpy|n?cat|n?cmp|len|r?chr|str|dup)|mem(?:cmp|chr)|calloc|realloc)\s*\(/;
const foreign = new RegExp(`(${hostCode.pattern.source})|${hostFunction.source}`);

/**
 * The error message for code that a file of kernels must not contain, such as host code; undefined if there is none.
 * @param source the preprocessed file, without system headers
 * @param placeOf "file:line" of an offset in `source`
 */
export function foreignCode(source: string, placeOf: (offset: number) => string): string | undefined {
  const found = foreign.exec(source.replaceAll(/"(?:\\.|[^"\\\n])*"/g, (text) => ' '.repeat(text.length)));
  if (!found) return undefined;
  const why = found[1] ? hostCode.message : 'a GPU does not have this function of C: write it as a loop';
  const line = source.slice(source.lastIndexOf('\n', found.index) + 1).split('\n')[0]!;
  return `${placeOf(found.index)}: error: ${why}\n  ${line.trim()}`;
}
