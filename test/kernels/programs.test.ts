// `gpt2 kernel run`: programs with host code, on the CPU.
import { beforeAll, describe, expect, it } from 'vitest';
import { workplace } from '../support/cli.ts';
import { programs, refused } from './programs.ts';

const place = workplace();

it.each(programs.map((each) => [each.name, each] as const))('%s', (_, { source, stdout, stderr, code = 0 }) => {
  const path = place.file('program.cu', source);
  const ran = place.run(['kernel', 'run', path, '--device', 'cpu', '--check', 'all']);
  const line = source.split('\n').findIndex((text) => text.includes('// WRONG')) + 1;
  if (typeof stdout === 'string') expect(ran.stdout, ran.stderr).toBe(stdout);
  else expect(ran.stdout).toMatch(stdout);
  expect(ran.stderr).toContain((stderr ?? '').replace('FILE', path).replace('LINE', String(line)));
  if (line > 0) expect(ran.stderr).toContain(`${path}:${line}`);
  expect(ran.code, ran.stderr).toBe(code);
});

it.each(refused)('refuses %s', (source, sentence) => {
  const path = place.file('refused.cu', `${source}\nint main() {}\n`);
  const { stderr, code } = place.run(['kernel', 'run', path, '--device', 'cpu']);
  expect(stderr.split('\n')[0]).toBe(
    `${path}:1: error: ${sentence} not emulated on a CPU: run this file on a GPU, or write it without`,
  );
  expect(code).toBe(1);
});

it('refuses a kernel that launches a kernel, at its line', () => {
  const path = place.file('nested.cu', '__global__ void a() {}\n__global__ void b() {\n  a<<<1, 1>>>();\n}\nint main() {}\n');
  expect(place.run(['kernel', 'run', path, '--device', 'cpu']).stderr).toMatch(
    /nested\.cu:3: error: a kernel that launches kernels \(dynamic parallelism\) does not run on a CPU/,
  );
});

describe('links files, passes arguments, and ends as the program does', () => {
  beforeAll(() => {
    place.file('inc/shared.h', 'extern "C" int twice(int);\nvoid launch(int *);\n');
    place.file('kernels.cu', '#include "shared.h"\n__global__ void add(int *x) { *x += BY; }\nvoid launch(int *x) { add<<<1, 1>>>(x); }\n');
    place.file('plain.c', 'int twice(int x) { int *class = &x; return 2 * *class; }\n');
    const main = `#include <cuda_runtime.h>\n#include <stdlib.h>\n#include "shared.h"
int main(int argc, char **argv) {
  int *x, host = atoi(argv[1]);
  if (host < 0) for (;;) {}
  cudaMalloc((void **)&x, 4); cudaMemcpy(x, &host, 4, cudaMemcpyHostToDevice);
  launch(x); cudaMemcpy(&host, x, 4, cudaMemcpyDeviceToHost); cudaFree(x);
  return twice(host);
}\n`;
    place.file('main.cpp', main);
  });
  const files = 'kernel run kernels.cu main.cpp plain.c --device cpu --include inc --define BY=4';
  it('a .cu, a .cpp and a .c file', () => expect(place.run(`${files} -- 3`).code).toBe(14));
  it('the time limit', () => {
    const { stderr, code } = place.run(`${files} --time-limit 0.5 -- -1`);
    expect(stderr).toMatch(/kernels\.cu did not end within 0\.5 s: give it smaller sizes, or more time with --time-limit/);
    expect(code).toBe(1);
  });
  it('files without a main, whose functions it names', () => {
    const { stderr, code } = place.run('kernel run kernels.cu --device cpu --include inc --define BY=4');
    expect(stderr).toContain('has no main to run (it compiles); its functions: add<<<>>>(int *x), launch(int *x); add a file');
    expect(code).toBe(1);
  });
});
