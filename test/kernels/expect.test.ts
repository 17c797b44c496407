// `gpt2 kernel test FILE.cu --expect FILE.mjs`, on the CPU.
import { expect, it } from 'vitest';
import { workplace } from '../support/cli.ts';

const place = workplace();
const source = `#include <cuda_fp16.h>
__global__ void add(const float *a, const float *b, float *c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void types(const half *a, const signed char *b, double *c, long long *d, long long n) {
  c[threadIdx.x] = double(float(a[threadIdx.x])) + b[threadIdx.x];
  d[threadIdx.x] += n;
}
__global__ void past(float *c) { c[threadIdx.x + 1] = 1; }
void nothing(float *c) {}
__global__ void from(float *c, int N) { c[N] = 1; }
extern "C" void solve(const float *A, const float *B, float *C, int N) { add<<<(N + 255) / 256, 256>>>(A, B, C, N); }
`;
const call = (inputs: string, expected: string, rest = '') =>
  `{ inputs: { ${inputs} }, expected: { ${expected} }, ${rest} }`;
const two = 'A: [1, 2], B: [3, 4], N: 2';

const cases: Record<string, [name: string, cases: string, output: RegExp, code: number]> = {
  'a right function': ['', call(two, 'C: [4, 6.0001]'), /^N 2 {2}right: C\nall right\n$/, 0],
  'a wrong function, with the place of the first wrong element': [
    '',
    call(two, 'C: [4, 5]', "name: 'two', shapes: { C: [2, 1] }"),
    /^two {2}C is wrong in 1 of 2 elements; the first, \[1, 0\], is 6, expected 5\n {2}2 rows of 1; # is wrong:\n {4}\.\n {4}#\n$/,
    1,
  ],
  'a kernel of fp16, int8, double and int64, and an array that is input and output': [
    'types',
    call('a: [1.5, 2], b: [-1, 3], d: [1, 4294967296], n: 7', 'c: [0.5, 5], d: [8, 4294967303]', 'grid: 1, block: 2'),
    /^n 7 {2}right: c, d\nall right\n$/,
    0,
  ],
  'a kernel with a defect': [
    'past',
    call('', 'c: [0, 1]', "name: 'x', grid: 1, block: 2"),
    /^x {2}the program failed \(exit code 1\)\ndefect: past: thread 1 of block 0 writes c\[2\], but c has 2 elements .*file\.cu:10[\s\S]*\n1 defect\n$/,
    1,
  ],
  'a function that writes nothing, twice': [
    'nothing',
    `${call('', 'c: [1]', "name: 'x'")}, ${call('', 'c: [1]', "name: 'y'")}`,
    /^x {2}c is wrong[\s\S]*copies from c .*, which was never written[\s\S]*\ny {2}c is wrong[\s\S]*\nthe same report as of x\n$/,
    1,
  ],
  'a case that ends without outputs after one with wrong ones': [
    'from',
    `${call('N: 0', 'c: [5]', 'grid: 1, block: 1')}, ${call('N: 100', 'c: [5]', 'grid: 1, block: 1')}`,
    /^N 0 {2}c is wrong [\s\S]*\nN 100 {2}the program failed \(exit code 1\)\ndefect: from: /,
    1,
  ],
  'a launch with too many threads': [
    'past',
    call('', 'c: [1]', "name: 'x', grid: 1, block: 2048"),
    /^x {2}the program failed \(exit code 1\)\n[\s\S]*past is not launched with blocks of 2048 x 1 x 1 threads: a block has 1 to 1024/,
    1,
  ],
  'no matrix in rows': ['', call('A: [[1, 2]], B: [3, 4], N: 2', 'C: [4, 6]'), /A holds \[1,2\], which is no/, 1],
  'no syntax error': [
    '',
    'inputs: }',
    /the expectation .*expect\.mjs cannot be loaded: line 1: Unexpected token ':'; correct it/,
    1,
  ],
  'no unknown parameter': ['', call(`${two}, M: 1`, 'C: [4, 6]'), /M is no parameter; they are A, B, C, N/, 1],
  'no case without a parameter': ['', call('N: 2', 'C: [4, 6]'), /a case lacks the parameter A/, 1],
  'no kernel without a launch': [
    'add',
    call('n: 2', 'c: [4, 6]'),
    /add is a kernel: give each case its grid and block/,
    1,
  ],
  'no missing function': ['run', call('', ''), /has no function run; it has add<<<>>>\(const float \*a, .*solve\(/, 1],
};
it.each(Object.entries(cases))('takes %s', (_, [name, list, output, code]) => {
  const [file, expectation] = [place.file('file.cu', source), place.file('expect.mjs', '')];
  place.file('expect.mjs', `export default { ${name && `function: '${name}',`} cases: [${list}] };`);
  // A limit whose milliseconds are no whole number in floating point.
  const options = ['--expect', expectation, '--device', 'cpu', '--time-limit', '64.01'];
  const ran = place.run(['kernel', 'test', file, ...options]);
  expect(ran.stderr + ran.stdout).toMatch(output);
  expect(ran.code).toBe(code);
});
