// `gpt2 kernel run`: programs with host code, on the CPU.
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { runProgram } from '../../src/lab/run-program.ts';
import { withCode, workplace } from '../support/cli.ts';

const place = workplace();
const [common, ...parts] = readFileSync(new URL('./programs.cu', import.meta.url), 'utf8').split(/^\/\/\/\/ /m);
const programs = parts.map((part) => {
  const told = (sign: string) => [...part.matchAll(new RegExp(`^//${sign} (.*)`, 'gm'))].map(([, text]) => text!);
  const stdout = told('>')
    .map((line) => `${line}\n`)
    .join('');
  return { name: part.split('\n')[0]!, source: `${common}// ${part}`, stdout, stderr: told('!'), code: told('=') };
});
const lineOf = (source: string, mark: string) => source.split('\n').findIndex((text) => text.includes(mark)) + 1;

it.each(programs)('$name', ({ name, source, stdout, stderr, code }) => {
  const path = place.file('program.cu', source);
  // A cooperative launch without checks once ran with the hooks of host code.
  if (/grid/.test(name))
    expect(place.run(['kernel', 'run', path, '--device', 'cpu', '--check', 'none']).stdout).toBe(stdout);
  const ran = place.run(['kernel', 'run', path, '--device', 'cpu', '--check', 'all']);
  expect(ran.stdout, ran.stderr).toBe(stdout);
  for (const text of stderr)
    expect(ran.stderr).toContain(text.replace('LINE', `${path}:${lineOf(source, '// WRONG')}`));
  expect(ran.code, ran.stderr).toBe(Number(code[0] ?? 0));
});

it.each([
  ['#include <thrust/sort.h>', 'thrust/sort.h'],
  ['#include <torch/extension.h>', 'torch/extension.h'],
  ['#include <cudnn.h>', 'cudnn'],
  ['#include <cuComplex.h>', 'cuComplex.h'],
  ['cudaTextureObject_t image;', 'cudaTextureObject_t (textures and surfaces)'],
  ['texture<float, 2> image;', 'texture (textures and surfaces)'],
  ['void run(cudaGraph_t graph) {}', 'cudaGraph_t (graphs of CUDA)'],
  ['int run() { return cuInit(0); }', 'cuInit (the driver API)'],
  ['int kind = CURAND_RNG_QUASI_SOBOL32;', 'CURAND_RNG_QUASI_SOBOL32'],
  ['__device__ int f(int x) { return __newest_intrinsic(x); }', '__newest_intrinsic'],
  ['__device__ int f(int *x) { return atomicMul(x, 2); }', 'atomicMul'],
])('refuses %s', (source, sentence) => {
  const path = place.file('refused.cu', `${source}\nint main() {}\n`);
  // A library that the machine has.
  place.file('usr/cudnn.h', 'void begin(cudaGraph_t graph);\n');
  const { stderr } = withCode(1, place.run(['kernel', 'run', path, '--device', 'cpu', '--include', place.path('usr')]));
  expect(stderr.split('\n')[0]).toBe(
    `${path}:1: error: ${sentence} is not emulated on a CPU: run this file on a GPU, or rewrite it without this`,
  );
});

it.each([
  ['k<<<1, 1>>>(x);', "error: too few arguments to function 'void k(float*, int)'"],
  ['cudaDeviceSynchronise();', 'error: there is no cudaDeviceSynchronise; did you mean cudaDeviceSynchronize?'],
  ['cudaMemCpy(x, x, 4, cudaMemcpyDefault);', 'error: there is no cudaMemCpy; did you mean cudaMemcpy?'],
  [
    'cudaMemst(x, 0, 4);',
    'error: cudaMemst is not emulated on a CPU: run this file on a GPU, or rewrite it without this; or did you mean cudaMemset?',
  ],
  ['cudaMalloc(*x, 4);', "error: no matching function for call to 'cudaMalloc(float&, int)'"],
  ['cudaMallocPitch(*x, 4);', "error: no matching function for call to 'cudaMallocPitch(float&, int)'"],
  ['cudaMemcpy3D(x);', 'rewrite it without this\n'],
  [
    '#include <helper_functions.h>',
    'error: the header helper_functions.h is missing: add its folder to the include folders\n',
  ],
])("shows the compiler's message about the file alone: %s", (statement, message) => {
  const source = `__global__ void k(float *x, int n) {}\nvoid solve(float *x) {\n${statement}\n}\n`;
  const path = place.file('wrong.cu', source);
  const { stderr } = withCode(1, place.run(['kernel', 'run', path, '--device', 'cpu']));
  expect(stderr).toContain(`${path}:3`);
  expect(stderr).toContain(message);
  expect(stderr).not.toMatch(/gpt2_|cuda_runtime|required from|type_traits|terminated/);
});

describe('links files, passes arguments, and ends as the program does', () => {
  beforeAll(() => {
    // CLEAR is an instruction of AVX, which compilers refuse without a flag.
    const intrinsics =
      '#ifdef __x86_64__\n#include <immintrin.h>\n#define CLEAR _mm256_zeroupper()\n#else\n#define CLEAR\n#endif\n';
    place.file(
      'inc/kernel.h',
      `${intrinsics}struct By { __device__ int get() const { return BY; } };\nextern "C" int twice(int);\nvoid launch(int *);\n`,
    );
    const kernels =
      '\uFEFF#include "kernel.h"\n__global__ void add(int *x) { *x += By().get(); }\nvoid launch(int *x) {\n  CLEAR;\n  if (x) {\n    add<<<1, 1>>>(x);\n  }\n}\n';
    place.file('kernels.cu', kernels);
    place.file('plain.c', 'int twice(int x) { int *class = &x; return 2 * *class; }\n');
    const main = `#include <cuda_runtime.h>\n#include <stdlib.h>\n#include "kernel.h"
int main(int argc, char **argv) {
  int *x, host = atoi(argv[1]); CLEAR;
  if (host < 0) for (;;) {}
  cudaMalloc((void **)&x, 4); cudaMemcpy(x, &host, 4, cudaMemcpyHostToDevice);
  launch(x); cudaMemcpy(&host, x, 4, cudaMemcpyDeviceToHost); cudaFree(x);
  return twice(host);
}\n`;
    place.file('main.cpp', main);
    place.file('card/card.mjs', '');
    place.file('card/k.cu', '__global__ void k(ELEMENT *x) {}\n');
  });
  const files = 'kernel run kernels.cu main.cpp plain.c --device cpu --include inc --define BY=4';
  it.each([
    ['a .cu, a .cpp and a .c file', `${files} -- 3`, 14, /^add: 1 of 1 blocks were checked/],
    ['a limit', `${files} --time-limit 0.5 -- -1`, 1, /kernels\.cu did not end within 0\.5 s: give it smaller sizes/],
    [
      'a sanitizer on a CPU',
      `${files} --sanitize`,
      2,
      /--sanitize needs a GPU and nvcc, and kernels\.cu, main\.cpp, plain\.c runs on the emulator/,
    ],
    [
      'files without a main, whose functions it names',
      files.replace('main.cpp plain.c', ''),
      1,
      /has no main to run \(it compiles\); its functions: add<<<>>>\(int \*x\), launch\(int \*x\); add a file with a main that calls them, or test one with kernel test --expect$/m,
    ],
    ['a source of a card', 'kernel run card/k.cu', 1, /^card\/k\.cu has no main .*; use kernel test card$/m],
    [
      'a function that no file defines',
      files.replace(' plain.c', ''),
      1,
      /^main\.cpp:9: error: undefined reference to twice: name the file that defines it, too, or remove its use\n$/,
    ],
  ])('%s', (_, line, code, stderr) => {
    const ran = place.run(line);
    expect(ran.stderr).toMatch(stderr);
    expect(ran.code, ran.stderr).toBe(code);
  });

  it.each([{ check: 'all' }, { everyLaunch: true }] as const)('refuses $check$everyLaunch on a GPU', async (option) => {
    place.script('toolkit/bin/nvcc', 'echo release 13.0');
    vi.stubEnv('CUDA_HOME', place.path('toolkit'));
    const { signal } = new AbortController();
    await expect(runProgram({ files: ['a.cu'], args: [], device: 'cuda', signal, ...option })).rejects.toThrow(
      /^--(check all|every-launch) is an option of the emulator, and a\.cu runs on the GPU: add --device cpu, or/,
    );
    vi.unstubAllEnvs();
  });
});
