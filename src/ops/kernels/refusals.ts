// Sentences for code that a CPU does not run, in place of the preprocessor's and the compiler's errors about it.
import { hostCode } from './compiler.ts';

/** Parts of CUDA by the headers and names that belong to them. The first row that matches names the part. */
const parts: readonly (readonly [RegExp, string])[] = [
  [/^thrust|^cub\b/, 'the library thrust or cub is'],
  [/^cublasLt/i, 'cuBLASLt is'],
  [/^cublasXt/i, 'cuBLASXt is'],
  [/^cudnn/i, 'cuDNN is'],
  [/^cufft/i, 'cuFFT is'],
  [/^(cutlass|cute)\b/, 'CUTLASS is'],
  [/^nccl/i, 'NCCL is'],
  [/^(mpi|MPI_)/, 'MPI is'],
  [/^(torch|ATen|c10|pybind11|at$)/, 'an extension of PyTorch is'],
  [/^(GL\/|GLFW|glut|cuda_gl|helper_gl|freeglut|cudaGL|cudaGraphics|cudaEGL|vulkan|cuda_d3d)/i, 'OpenGL and other graphics are'],
  [/^(texture|tex[123]D|surf|cuda\w*(Texture|Surface|Array|Mipmap|ChannelDesc|ChannelFormat|ResourceDesc))/, 'textures and surfaces are'],
  [/^cuda(Graph|Stream\w*Capture)/, 'graphs of CUDA are'],
  [/^cudaIpc|^cuda(Import|Destroy)?External/, 'memory of other processes is'],
  [/^nvrtc/, 'NVRTC is'],
  [/^(cu[A-Z]|CU_?[a-z]*|CU[A-Z_]+$)/, 'the driver API is'],
];

const advice = 'run this file on a GPU, or write it without';

const missingHeader = /^(.*?:\d+):\d+: fatal error: '?([\w./+-]+)'?(?:: No such file| file not found)/m;
const unknownName =
  /^(.*?:\d+):\d+: error: .*?['‘](?:struct |const |class )?(?:::|cuda::|nvcuda::|\w+::)*(\w+)[^'’]*['’] (?:was not declared|does not name a type|has not been declared|is not a member|has no member|is not a class)|^(.*?:\d+):\d+: error: (?:use of undeclared identifier|unknown type name|no member named|no type named|no template named) '(\w+)/gm;

/** The sentence for the first error of the compiler that is about a part of CUDA which is not emulated; undefined if there is none. */
export function refusalOf(log: string, name: string, source: string): string | undefined {
  const [, place, header] = missingHeader.exec(log) ?? [];
  if (header !== undefined) {
    const part = partOf(header) ?? (/^(cu|nv|cooperative|sm_|math_|device_|helper_)/.test(header) ? `${header} is` : undefined);
    return part && `${place}: error: ${header}: ${part} not emulated on a CPU: ${advice}`;
  }
  for (const [, gcc, gccName, clang, clangName] of log.matchAll(unknownName)) {
    const word = (gccName ?? clangName)!;
    const part = partOf(word) ?? (/^(cu|CU|__|nvcuda|wmma)/.test(word) ? `${word} is` : undefined);
    const line = source.split('\n')[Number((gcc ?? clang)!.split(':').at(-1)) - 1];
    const shown = (gcc ?? clang)!.startsWith(`${name}:`) && line !== undefined ? `\n  ${line.trim()}` : '';
    if (part) return `${gcc ?? clang}: error: ${part.startsWith(word) ? '' : `${word}: `}${part} not emulated on a CPU: ${advice}${shown}`;
  }
  return undefined;
}

const partOf = (word: string): string | undefined => parts.find(([pattern]) => pattern.test(word))?.[1];

/** Code that compiles, but that a file of kernels cannot have. */
const foreign: readonly (readonly [RegExp, string])[] = [
  [hostCode.pattern, hostCode.message],
  [
    /(?<![\w.>])(?:str(?:n?cpy|n?cat|n?cmp|len|r?chr|str|dup)|mem(?:cmp|chr)|calloc|realloc)\s*\(/,
    'a GPU does not have this function of C: write it as a loop',
  ],
];

/** The refusal of a file of kernels, preprocessed and without its headers, or undefined. */
export function foreignCode(source: string): string | undefined {
  let [file, line] = ['', 0];
  for (const text of source.split('\n')) {
    const marker = /^# (\d+) "(.*?)"/.exec(text);
    if (marker) {
      [file, line] = [marker[2]!, Number(marker[1])];
      continue;
    }
    const code = text.replaceAll(/"(?:\\.|[^"\\])*"/g, '""');
    const why = foreign.find(([pattern]) => pattern.test(code))?.[1];
    if (why !== undefined) return `${file}:${line}: error: ${why}\n  ${text.trim()}`;
    line++;
  }
  return undefined;
}
