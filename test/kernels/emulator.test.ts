// Kernels on the CPU library: planted errors are all found, at their line; correct kernels run without a report.
import { spawnSync } from 'node:child_process';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { compileKernels, Device, type LaunchShape, tensorOf } from '../../src/index.ts';
import { moduleLoader, moduleOf } from '../support/built.ts';
import { workplace } from '../support/cli.ts';
import { asAlone, batched, kernel, launch, n, one, together, values, whole } from './kernel-cases.ts';
import { plantedErrors } from './planted-errors.ts';
import { rightKernels } from './right-kernels.ts';

const place = workplace();
const device = Device.open({ kind: 'cpu', threads: 2 });
afterAll(() => device.close());

/** Runs the kernel k of a source, which is compiled alone. */
async function run(source: string, shape: LaunchShape, checks = true) {
  const { k } = await compileKernels<'k'>(device, { source, checks });
  return launch(device, k, shape);
}

describe('finds planted errors', () => {
  const runPlanted = batched(plantedErrors.map(({ source }) => source));
  it.each(plantedErrors.map((each) => [each.name, each] as const))('%s', async (_, { source, shape, message }) => {
    const line = source.split('\n').findIndex((text) => text.includes('// WRONG')) + 1;
    const error = await runPlanted(device, source, shape).then(
      () => 'nothing',
      ({ message }: Error) => message.replace('gpt2_module_launch: ', ''),
    );
    expect(error).toMatch(message);
    expect(error).toContain(`source.cu:${line}`);
  });
});

describe('runs correct kernels', () => {
  const runRight = batched(rightKernels.map(({ source }) => source));
  it.each(rightKernels.map((each) => [each.name, each] as const))('%s', async (_, { source, shape, expected }) => {
    const checked = await runRight(device, source, shape);
    expect(Array.from(checked.slice(0, expected.length))).toEqual(expected);
    expect(await runRight(device, source, shape, false)).toEqual(checked);
  });

  it('takes tensors of every type, with numbers rounded to theirs', async () => {
    const source = `#include <cuda_fp16.h>
      __global__ void k(__half *half, double *wide, const signed char *a, const unsigned char *b) {
        half[threadIdx.x] = __half(float(half[threadIdx.x]) * 2);
        wide[threadIdx.x] += a[threadIdx.x] + b[threadIdx.x];
      }`;
    const { k } = await compileKernels<'k'>(device, { source });
    const half = tensorOf(device, Float32Array.of(0.1, 3), [2], 'fp16');
    const wide = tensorOf(device, Float64Array.of(0.1, 2 ** 40));
    const bytes = tensorOf(device, Uint8Array.of(7, 255), [2], 'uint8');
    k.launch({ grid: 1, block: 2 }, half, wide, tensorOf(device, Int8Array.of(-128, 1)), bytes);
    // 0.1 is 0x2e66 in fp16.
    expect([...half.read(), ...half.numbers()]).toEqual([0x3266, 0x4600, 0.199951171875, 6]);
    expect([...wide.numbers()]).toEqual([0.1 + 7 - 128, 2 ** 40 + 256]);
    expect(() => tensorOf(device, Float64Array.of(1), [1], 'fp16')).toThrow('tensor holds fp16, not Float64Array');
    expect(() => tensorOf(device, [1] as never)).toThrow(
      'a tensor holds one of Float32Array, Uint16Array, Uint8Array, Int8Array, Int32Array, Float64Array, not Array',
    );
  });
});

/** Each with what it writes to out[0], and the warnings that the checks print. */
const doubtful: readonly [name: string, body: string, first: number, warnings: RegExp][] = [
  ...(
    [
      ['int', 'int', 'int(__int_as_float(old) + in[i])', 256],
      ['float', 'int', '__float_as_int(__int_as_float(old) + in[i])', 32_640],
      ['double', 'unsigned long long', '__double_as_longlong(__longlong_as_double(old) + in[i])', 32_640],
    ] as const
  ).map(([type, word, sum, first]): [string, string, number, RegExp] => [
    `a loop around atomicCAS, ${type}`,
    type === 'int'
      ? `  int *to = (int *)out, old = *to, last;\n  do last = old; while ((old = atomicCAS(to, last, last + 1)) != last);\n`
      : `  auto *to = (${word} *)out;\n  ${word} old = *to, last;\n  do last = old; while ((old = atomicCAS(to, last, ${sum})) != last);\n`,
    first,
    /^warning: k: thread 1 of block 0 reads out\[0\], which thread 0 wrote with no barrier between: right only if an old value does no harm at source\.cu:\d \(the other is at source\.cu:\d\)\n/,
  ]),
  [
    'one value, written by many threads and blocks',
    '  if (in[i] > 10) out[0] = 1;',
    1,
    /^warning: k: thread 12 of block 0 writes out\[0\], which thread 11 wrote with no barrier between: right, because it is the same value at source\.cu:4 /,
  ],
  [
    'one value, in shared memory',
    '  __shared__ bool is_any;\n  if (threadIdx.x == 0) is_any = false;\n  __syncthreads();\n  if (in[i] > 10) is_any = true;\n  __syncthreads();\n  if (i == 64) out[0] = is_any;',
    1,
    /^warning: k: thread \d+ of block 0 writes element 0 of is_any \(shared memory\), which thread \d+ wrote/,
  ],
];

describe('warns, and lets the kernel run on', () => {
  it('of a read of what others change by atomics, and of one value that several threads write, once a line', () => {
    const file = (name: string) => JSON.stringify(moduleOf(name));
    const program = `
      import { compileKernels } from ${file('ops/kernels/compile.ts')};
      import { tensorOf } from ${file('native/tensor.ts')};
      import { Device } from ${file('native/device.ts')};
      const device = Device.open({ kind: 'cpu', threads: 2 });
      const source = ${JSON.stringify(together(doubtful.map(([, body]) => kernel(body))))};
      for (const k of Object.values(await compileKernels(device, { source }))) {
        const [out, values] = [new Float32Array(${n}), Float32Array.from({ length: ${n} }, (_, i) => i)].map((each) => tensorOf(device, each));
        for (let launch = 0; launch < 2; launch++) {
          out.write(new Float32Array(${n}));
          k.launch({ grid: 4, block: 64 }, out, values, ${n});
        }
        process.stderr.write('====');
        console.log([...new Uint32Array(out.read().buffer)].slice(0, 2).join(' '));
      }`;
    const path = place.file('doubtful.mjs', program);
    const { status, stdout, stderr } = spawnSync(process.execPath, [...moduleLoader, path], { encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    // A sanitizer prints lines of its own before.
    const warnings = stderr
      .split('====')
      .map((text, index) => asAlone(text.replace(/^==[\s\S]*?(?=^warning: )/m, ''), index));
    const words = stdout.trimEnd().split('\n');
    for (const [index, [name, , first, expected]] of doubtful.entries()) {
      const bits = Uint32Array.from(words[index]!.split(' '), Number);
      const View = name.endsWith('int') ? Int32Array : name.endsWith('double') ? Float64Array : Float32Array;
      expect(new View(bits.buffer)[0], name).toBe(first);
      expect(warnings[index], name).toMatch(expected);
      const lines = warnings[index]!.split('\n').filter((line) => line.startsWith('warning: '));
      expect(new Set(lines.map((line) => line.replace(/.* at (?=source)/, ''))).size, name).toBe(lines.length);
    }
  });
});

const overflowing = '__device__ __noinline__ int f(int x) { volatile int own = x; return f(x + 1) + own; }';
/** Faults of kernels that run without checks, each with its message. */
const failing = Object.entries<[body: string, message: RegExp]>({
  'a barrier that is not reached': [
    '  if (threadIdx.x < 32) __syncthreads();\n  out[i] = in[i];',
    /k: thread 0 of block 0 waits at a barrier/,
  ],
  // A free address. One far past a tensor may lie beyond the end of the address space, where a signal does not tell it.
  'a write far outside': [
    '  *reinterpret_cast<float *>(0x123400000000ll) = 1;',
    /accesses memory that does not exist, at 0x123400000000 at source\.cu:4/,
  ],
  'a division by zero': ['  out[i] = n / i;', /divides an integer by 0, or .* at source\.cu:4/],
  'a function without end': ['  out[i] = f(i);', /fills its stack of 512 KiB: .* at source\.cu:1/],
  'a large local array': ['  volatile char own[700000];\n  own[i] = 1;\n  out[i] = own[i];', /fills its stack/],
}).map(([name, [body, message]]) => [name, kernel(body, overflowing), message] as const);

describe('survives what a kernel does without checks', () => {
  const right = kernel('  out[i] = in[i];');
  const runFailing = batched([right, ...failing.map(([, source]) => source)]);
  it.each(failing)('%s', async (_, source, message) => {
    await expect(runFailing(device, source, one, false)).rejects.toThrow(message);
    expect(await runFailing(device, right, whole, false)).toEqual(values);
  });
});

describe('refuses', () => {
  const refused: Record<string, [body: string, message: RegExp, before?: string]> = {
    'a syntax error': ['const float x = ;', /source\.cu:4:\d+: error: .*\n.*const float x = ;\n.*\^/],
    'PTX that is not in the table': [
      '  int lane;\n  asm("mov.u32 %0, %%laneid;"\n      : "=r"(lane));\n  asm("vote.sync.any.pred %0, 1, 2;" : "=r"(lane));',
      /^source\.cu:7: error: the PTX "vote\.sync\.any\.pred %0, 1, 2" does not run on a CPU: run this kernel on a GPU, or rewrite it without this$/,
    ],
    'a function a GPU lacks': ['strcpy((char *)out, "a");', /^source\.cu:4: error: a GPU does not have this function/],
    'a host launch': ['k<<<1, 2>>>(out, in, n);', /^source\.cu:4: error: this is code of the host: leave only kernels/],
    'larger declared arrays than a block can have': [
      '__shared__ float tile[64][256];\n tile[0][0] = 1;',
      /declares tile \(shared memory\): a block's declared arrays have 65536 bytes with it; the most is 49152, more needs extern __shared__ memory at source\.cu:4/,
    ],
    'a barrier of the grid in a launch that is not cooperative': [
      '  cooperative_groups::this_grid().sync();',
      /waits for the whole grid, but the launch is not cooperative.* at source\.cu:4/,
      '#include <cooperative_groups.h>',
    ],
    'a main function': [
      '  printf("<<<");\n}\nint main() {\n  cudaDeviceSynchronize();',
      /^source\.cu:6: error: this is code of the host: .*\n {2}int main\(\) \{$/,
      '#include <iostream>',
    ],
    'a header that is not emulated': [
      '',
      /^source\.cu:1: error: cub\/cub\.cuh is not emulated on a CPU: run this file on a GPU, or rewrite it without this$/,
      '#include <cub/cub.cuh>',
    ],
    'a source that ends too early, at its last line': ['{ out[0] = 1;', /source\.cu:5:\d+: error: expected .}.* *\n}/],
  };
  it.each(Object.entries(refused))('%s', async (_, [body, message, before]) => {
    await expect(run(kernel(body, before), one)).rejects.toThrow(message);
  });

  it('declared arrays and dynamic shared memory that are together more than a block has', async () => {
    const both = (count: number) =>
      kernel(`  __shared__ float tile[${count}];\n  extern __shared__ float more[];\n  tile[i] = more[i] = in[i];`);
    const shape = { ...one, shared: 220_000 };
    await run(both(3112), shape);
    await expect(run(both(3113), shape)).rejects.toThrow(
      /declares tile \(shared memory\): 12452 bytes of declared arrays and the launch's 220000 of dynamic shared memory are more than a block's 232448 at source\.cu:4/,
    );
  });

  it('a block that is larger than the launch bounds of its kernel', async () => {
    const plain = '__global__ void __launch_bounds__(32 * (1 + 1), 2) k(float *out, const float *in, int n) {}';
    await run(`__global__ void __launch_bounds__(64)\nk(float *out, const float *in, int n);\n${plain}`, one);
    await expect(run(plain, { grid: 1, block: 65 })).rejects.toThrow(
      /^k: a block of 65 x 1 x 1 is 65 threads; this kernel takes at most 64$/,
    );
    const source = `namespace inner {
template <class T, int WARPS>
__launch_bounds__(1024) __device__ void unused() {}
template <class T, int WARPS>
__global__ __launch_bounds__(WARPS * 32, WARPS < 4 ? 2 : 1) void k(T *out) { out[0] = __LINE__; }
}`;
    const kernels = await compileKernels(device, { source, instantiate: ['inner::k<float, 2>', 'inner::k<float, 3>'] });
    const threads = Object.values(kernels).map(({ name, attributes }) => [name, attributes.threads]);
    expect(threads).toEqual([
      ['inner::k<float, 2>', 64],
      ['inner::k<float, 3>', 96],
    ]);
    const out = tensorOf(device, new Float32Array(1));
    kernels['inner::k<float, 3>']!.launch({ grid: 1, block: 1 }, out);
    expect(out.read()).toEqual(Float32Array.of(5));
  });

  it('a machine without a compiler', async () => {
    vi.stubEnv('CXX', place.path('none'));
    await expect(run(kernel('// changed'), one)).rejects.toThrow(
      /^there is no C\+\+ compiler, which kernels need on a CPU/,
    );
    vi.stubEnv('CXX', undefined);
  });
});
