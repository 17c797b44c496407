// `gpt2 kernel test FILE.cu --expect FILE.mjs`, on the CPU.
import { expect, it } from 'vitest';
import { withCode, workplace } from '../support/cli.ts';

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
void nothing(float *c, int *d) {}
__global__ void from(float *c, int N) { c[N] = 1; }
extern "C" void solve(const float *A, const float *B, float *C, int N) { add<<<(N + 255) / 256, 256>>>(A, B, C, N); }
`;
const call = (inputs: string, expected = 'C: [4, 6]', rest = '') =>
  `{ inputs: { ${inputs} }, expected: { ${expected} }, ${rest} }`;
const two = 'A: [1, 2], B: [3, 4], N: 2';
const typed = 'a: [1.5, 2], b: [-1, 3], d: [1, 4294967296], n: 7';
const sum = 'c: [0.5, 5], d: [8, 4294967303]';
const launch = 'grid: 1, block: 2';
const test = (name: string, text: string, how: 'here' | 'run' = 'here') => {
  const [file, expectation] = [place.file('file.cu', source), place.file(name, text)];
  // A limit whose milliseconds are no whole number in floating point.
  return place[how](`kernel test ${file} --expect ${expectation} --device cpu --time-limit 64.01`);
};

const cases: Record<string, [others: string, cases: string, output: RegExp, code: number]> = {
  'a right function': ['', call(two, 'C: [4, 6.0001]'), /^case 1, N 2 {2}right: C\nall right\n$/, 0],
  'a wrong function, with the place of the first wrong element': [
    '',
    call(two, 'C: [4, 5]', "name: 'two', shapes: { C: [2, 1] }"),
    /^case 1, two {2}C is wrong in 1 of 2 elements; the first, \[1, 0\], is 6, expected 5\n {2}2 rows of 1; # is wrong:\n {4}\.\n {4}#\n$/,
    1,
  ],
  'a kernel of fp16, int8, double and int64, and an array that is input and output': [
    "function: 'types'",
    call(typed, sum, launch),
    /^case 1, n 7 {2}right: c, d\nall right\n$/,
    0,
  ],
  'a function that writes nothing, twice': [
    "function: 'nothing'",
    `${call('', 'c: [0], d: [0]', "name: 'x'")}, ${call('', 'c: [1], d: [0]', "name: 'y'")}`,
    /^case 1, x {2}defects\ndefect: no kernel wrote c\[0\]\ndefect: no kernel wrote d\[0\]\n2 defects\ncase 2, y {2}defects\n[\s\S]*c is wrong[\s\S]*\nthe same report as of case 1, x\n$/,
    1,
  ],
  'a case that ends without outputs after one with wrong ones': [
    "function: 'from'",
    `${call('N: 0', 'c: [5]', 'grid: 1, block: 1')}, ${call('N: 100', 'c: [5]', 'grid: 1, block: 1')}`,
    /^case 1, N 0 {2}c is wrong [\s\S]*\ncase 2, N 100 {2}the program failed \(exit code 1\)\ndefect: from: /,
    1,
  ],
};
it.each(Object.entries(cases))('takes %s', async (_, [others, list, output, code]) => {
  const ran = await test('expect.mjs', `export default { cases: [${list}], ${others} };`);
  expect(ran.stderr + ran.stdout).toMatch(output);
  expect(ran.code).toBe(code);
});

it.each([
  ['', 'expect.mjs needs a default export with cases: [{ inputs'],
  [call(two), 'expect.mjs: tolerance takes a number of at least 0, not -1', 'tolerance: -1'],
  [call(two), 'expect.mjs: there is no option "toleranse"; did you mean "tolerance"?', 'toleranse: 1'],
  [call(two, 'C: [4, 6]', 'tolerance: 1'), 'case 1: there is no option "tolerance"; the options are inputs'],
  [call('', ''), 'has no function run; it has add<<<>>>(const float *a, const', "function: 'run'"],
  [call('n: 2', 'c: [4, 6]'), 'case 1: the function is a kernel: give grid and block', "function: 'add'"],
  [call(two, 'C: [4, 6]', launch), 'case 1: the function is no kernel: leave out grid and block'],
  [call('', 'c: [1]', 'grid: 1, block: [1, 0.5]'), 'case 1: a size of grid or block takes a', "function: 'past'"],
  [call(`${two}, M: 1`), 'case 1: M is no parameter; they are A, B, C, N'],
  [`${call(two)}, ${call('N: 2')}`, 'case 2: it lacks the parameter A'],
  [call(two, ''), 'case 1: expected is empty'],
  [call(two, 'C: 4'), 'case 1: C takes an array of numbers, not 4'],
  [call(`${two}, C: [0]`), 'case 1: C has 1 numbers as an input, but 2 are expected'],
  [call('A: [[1, 2]], B: [3, 4], N: 2'), 'case 1: A[0] is [1,2], which is no number: write a matrix'],
  [call(two, 'C: [4, 6]', 'shapes: { C: [4, 9] }'), 'case 1: the shape [4,9] does not fit the 2 numbers'],
  [call('A: 1, B: [3, 4], N: 2'), 'case 1: A takes an array, not a number\n'],
  [call('A: [1, 2], B: [3, 4], N: [2]'), 'case 1: N takes a number, not an array\n'],
  [call('A: [1, 2], B: [3, 4], N: 2.5'), 'case 1: N is 2.5, which its C type cannot hold\n'],
  [call('A: [1, 1e39], B: [3, 4], N: 2'), 'case 1: A[1] is 1e+39, which its C type'],
  [call(typed.replace('-1', '128'), sum, launch), 'case 1: b[0] is 128, which', "function: 'types'"],
  [call(typed.replace('1.5', '65520'), sum, launch), 'case 1: a[0] is 65520, which', "function: 'types'"],
  [
    call(typed, sum.replace('8', '2 ** 53'), launch),
    'd[0] is 9.00719925474099e+15, a whole number of 2^53',
    "function: 'types'",
  ],
  // Integers are exact, whatever the tolerance.
  [call(typed, sum.replace('303', '304'), launch), '[1], is 4294967303, expected', "function: 'types', tolerance: 1"],
  [call(two, 'C: [4, Infinity]'), 'C is wrong in 1 of 2 elements; the first, [1], is 6, expected Infinity'],
  [
    call('', 'c: []', launch),
    'failed (exit code 1)\ndefect: past: thread 0 of block 0 writes c[1]',
    "function: 'past'",
  ],
  [call('', 'c: [0, 1]', launch), 'thread 1 of block 0 writes c[2], but c has 2 elements at ', "function: 'past'"],
  [call('', 'c: [1]', 'grid: 1, block: 2048'), 'past is not launched with blocks of 2048 x 1', "function: 'past'"],
])('fails %s: %s', async (list, message, others = '') => {
  const { stderr, stdout } = withCode(1, await test('expect.mjs', `export default { cases: [${list}], ${others} };`));
  expect(stderr + stdout).toContain(message);
});

it.each([
  ['expect.mjs', 'export default { : };', /^the expectation .* cannot be loaded: line 1: .* ':'; correct it\n$/],
  [
    'expect.json',
    '{ "cases": [] }',
    /^the expectation .*\.json is no TypeScript or JavaScript: name a \.ts or \.mjs file\n$/,
  ],
  // With types, where Node reads them.
  [
    'expect.ts',
    `const cases: object[] = [${call(two)}];\nexport default { cases };`,
    /^case 1, N 2 {2}right: C\n|: line 1: .*; correct it; if it is a type, leave it out, or use Node 22\.18 or later\n$/,
  ],
])('reads a program: %s', async (name, text, output) => {
  const { stdout, stderr } = await test(name, text, 'run');
  expect(stdout + stderr).toMatch(output);
});
