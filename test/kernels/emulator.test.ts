// Kernels on the CPU library: planted errors are all found, at their line; correct kernels run without a report.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { packageRoot } from '../../src/base/package-root.ts';
import { Device } from '../../src/native/device.ts';
import { tensorOf } from '../../src/native/tensor.ts';
import { compileKernels } from '../../src/ops/kernels/compile.ts';
import type { LaunchShape } from '../../src/ops/kernels/kernels.ts';
import { Workplace } from '../support/cli.ts';

let place: Workplace;
let device: Device;
beforeAll(() => {
  place = new Workplace();
  vi.stubEnv('XDG_CACHE_HOME', place.path('cache'));
  device = Device.open({ kind: 'cpu', threads: 2 });
});
afterAll(() => {
  device.close();
  vi.unstubAllEnvs();
  place[Symbol.dispose]();
});

const n = 256;
const values = Float32Array.from({ length: n }, (_, i) => i);

/** Runs k(out, in, n); out and in have n elements. */
async function run(source: string, shape: LaunchShape, checks = true) {
  const { k } = await compileKernels<'k'>(device, { source, checks });
  const out = tensorOf(device, new Float32Array(n));
  k.launch(shape, out, tensorOf(device, values), n);
  return out.read();
}

const kernel = (body: string, before = '') =>
  `${before}\n__global__ void k(float *out, const float *in, int n) {\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n${body}\n}\n`;
const whole: LaunchShape = { grid: 4, block: 64 };
const one: LaunchShape = { grid: 1, block: 64 };

const pipeline = '#include <cuda_pipeline.h>';
const copy =
  '  __shared__ float tile[64];\n  __pipeline_memcpy_async(&tile[threadIdx.x], in + i, 4);\n  __pipeline_commit();\n';

/** More of them by kind, each with what comes before the kernel; all run in one block. */
const more: Readonly<
  Record<string, readonly (readonly [name: string, body: string, message: RegExp, before?: string])[]>
> = {
  'a lane that does not take part': [
    [
      'a shuffle in a width of 64',
      '  out[i] = __shfl_down_sync(~0u, in[i], 1, 64);  // WRONG',
      /in a width that is not 1, 2, 4, 8, 16 or 32/,
    ],
    [
      'a shuffle in a width of 0',
      '  out[i] = __shfl_down_sync(~0u, in[i], 1, n - 256);  // WRONG',
      /in a width that is not 1, 2, 4, 8, 16 or 32/,
    ],
    ['a shuffle by -1', '  out[i] = __shfl_xor_sync(~0u, in[i], -1);  // WRONG', /by a distance that is not 0 to 32/],
    ['a shuffle by 40', '  out[i] = __shfl_up_sync(~0u, in[i], 40);  // WRONG', /by a distance that is not 0 to 32/],
  ],
  'bounds of a shared array': [
    [
      'into the array declared with it',
      '  __shared__ float tile[64], other[64];\n  float *p = tile;\n  other[i] = 0;\n  p[i + 1] = in[i];  // WRONG\n  __syncthreads();\n  out[i] = other[i];',
      /thread 63 of block 0 writes element 64 of tile \(shared memory\), which has 256 bytes/,
    ],
  ],
  'bytes that a function copies': [
    [
      'memcpy past the end',
      '  if (i == 0) memcpy(out, in, 4 * n + 4);  // WRONG',
      /reads in\[256\], but in has 256 elements/,
    ],
    [
      'memmove past the end',
      '  if (i == 0) memmove(out + 1, in, 4 * n);  // WRONG',
      /writes out\[256\], but out has 256 elements/,
    ],
    [
      'memcpy of a constant length',
      '  float x[8];\n  memcpy(x, in + 4 * i + 4, 32);  // WRONG\n  out[i] = x[0];',
      /thread 62 of block 0 reads in\[256\], but in has 256 elements/,
    ],
    [
      'memset of what another thread wrote',
      '  __shared__ float tile[64];\n  tile[i] = 1;\n  if (i == 5) memset(tile, 0, n);  // WRONG\n  __syncthreads();\n  out[i] = tile[i];',
      /thread 5 of block 0 races: it writes byte 0 of tile \(shared memory\), which thread 0 wrote/,
    ],
    [
      'std::copy of floats',
      '  if (i == 0) std::copy(in, in + n + 1, out);  // WRONG',
      /reads in\[256\], but in has 256 elements/,
      '#include <algorithm>',
    ],
    [
      'std::fill',
      '  if (i == 0) std::fill(out, out + n + 1, 1.0f);  // WRONG',
      /writes out\[256\], but out has 256 elements/,
      '#include <algorithm>',
    ],
  ],
  'variables of the file': [
    [
      'a race in a __device__ array',
      '  counts[0] = i;  // WRONG',
      /thread 1 of block 0 races: it writes element 0 of counts, which thread 0 wrote/,
      '__device__ int counts[4];',
    ],
    [
      'past a __device__ array',
      '  int *p = counts;\n  p[i] = 1 + other[0];  // WRONG',
      /thread 4 of block 0 writes element 4 of counts, which has 16 bytes/,
      '__device__ int counts[4], other[4];',
    ],
    [
      'past one with values, in a namespace',
      '  int *p = inner::counts;\n  p[i] = 1 + inner::other[0];  // WRONG',
      /thread 4 of block 0 writes element 4 of inner::counts, which has 16 bytes/,
      'namespace inner {\nstatic __device__ int counts[4] = {1, 2}, other[4];\n}',
    ],
    [
      'past a table of constants',
      '  const float *p = table;\n  out[i] = p[i];  // WRONG',
      /thread 4 of block 0 reads element 4 of table, which has 16 bytes/,
      '__constant__ float table[] = {1, 2, 3, 4};',
    ],
    [
      'a write to a constant',
      '  table[0] = in[i];  // WRONG',
      /thread 0 of block 0 writes element 0 of table, which is constant/,
      '__constant__ float table[4];',
    ],
    [
      'past a shared array outside of functions',
      '  float *p = tile;\n  p[i + 1] = 1;  // WRONG',
      /thread 63 of block 0 writes element 64 of tile \(shared memory\), which has 256 bytes/,
      '__shared__ float tile[64], other[64];',
    ],
  ],
  'memory from malloc': [
    [
      'more than a GPU has for it',
      '  float *p = (float *)malloc(9 << 20);\n  out[i] = p[i];  // WRONG',
      /reads through a null pointer/,
    ],
    [
      'past its end',
      '  float *p = (float *)malloc(8);\n  p[2] = in[i];  // WRONG\n  free(p);',
      /thread 0 of block 0 writes element 2 of memory from malloc, which has 8 bytes/,
    ],
    [
      'is freed twice',
      '  float *p = new float[4];\n  p[0] = in[i];\n  delete[] p;\n  delete[] p;  // WRONG',
      /thread 0 of block 0 frees an address that malloc did not return, or that is free/,
    ],
    [
      'a race',
      '  __shared__ float *p;\n  if (i == 0) p = new float[64];\n  __syncthreads();\n  p[i] = in[i];\n  out[i] = p[63 - i];  // WRONG',
      /races: it (writes|reads) element \d+ of memory from malloc/,
    ],
  ],
  'a header of the emulator': [
    ['__ldg past the end', '  out[i] = __ldg(in + i + 200);  // WRONG', /thread 56 of block 0 reads in\[256\]/],
    [
      '__ldcs of what another thread writes',
      '  out[i] = 1; out[i] += __ldcs(out + (i ^ 1));  // WRONG',
      /thread \d of block 0 races: it (writes|reads) out\[\d\]/,
    ],
    [
      '__ldg of a vector that is not aligned',
      '  out[i] = __ldg(reinterpret_cast<const float4 *>(in + i)).x;  // WRONG',
      /accesses 'const struct float4' at an address that is not a multiple of 16/,
    ],
    [
      'a 16-bit number past the end',
      '  reinterpret_cast<__half *>(out)[i + 500] += __half(1.0f);  // WRONG',
      /thread 12 of block 0 reads out\[256\]/,
      '#include <cuda_fp16.h>',
    ],
    [
      'a barrier of a group that is not reached',
      '  if (i < 32) cooperative_groups::this_thread_block().sync();  // WRONG',
      /thread 0 of block 0 waits at a barrier that thread 32/,
      '#include <cooperative_groups.h>',
    ],
  ],
  'a full stack or an instruction that traps': [
    [
      'a function without end',
      '  out[i] = f(i);',
      /fills its stack of 512 KiB: look for a function that calls itself without end/,
      '__device__ __noinline__ int f(int x) { volatile int own = x; return f(x + 1) + own; }  // WRONG',
    ],
    [
      'the smallest integer, divided',
      '  out[i] = (n - 256 + INT_MIN) / (255 - n);  // WRONG',
      /divides an integer by 0, or the smallest integer by -1/,
    ],
  ],
};

/** Each with its kind, and the line that is wrong marked in the source. */
type Planted = [kind: string, name: string, source: string, shape: LaunchShape, message: RegExp];
const planted: readonly Planted[] = [
  [
    'bounds of a tensor',
    'reads one past the end',
    kernel('  out[i] = in[i + 1];  // WRONG'),
    whole,
    /^k: thread 63 of block 3 reads in\[256\], but in has 256 elements/,
  ],
  [
    'bounds of a tensor',
    'writes without a guard',
    kernel('  out[i] = 1;  // WRONG'),
    { grid: 5, block: 64 },
    /^k: thread 0 of block 4 writes out\[256\], but out has 256 elements/,
  ],
  [
    'bounds of a tensor',
    'reads before the start',
    kernel('  out[i] = i > 0 ? in[i - 2] : 0;  // WRONG'),
    whole,
    /thread 1 of block 0 reads in\[-1\]/,
  ],
  [
    'bounds of a tensor',
    'a vector across the end',
    kernel(
      '  const float4 *v = reinterpret_cast<const float4 *>(in);\n  const float4 x = v[i];  // WRONG\n  out[i] = x.x + x.w;',
    ),
    { grid: 2, block: 64 },
    /thread 0 of block 1 reads in\[256\]/,
  ],
  [
    'bounds of a tensor',
    'an atomic beyond the end',
    kernel('  atomicAdd(&out[n], in[i]);  // WRONG'),
    one,
    /writes out\[256\], but out has 256 elements/,
  ],
  [
    'bounds of a shared array',
    'a constant index too large',
    kernel(
      '  __shared__ float tile[64];\n  tile[threadIdx.x + 1] = 1;  // WRONG\n  __syncthreads();\n  out[i] = tile[threadIdx.x];',
    ),
    one,
    /thread 63 of block 0 uses index 64 of an array of type 'float ?\[64\]'/,
  ],
  [
    'bounds of a shared array',
    'the second index too large',
    kernel(
      '  __shared__ float tile[8][8];\n  tile[threadIdx.x / 8][threadIdx.x % 9] = 1;  // WRONG\n  __syncthreads();\n  out[i] = tile[0][0];',
    ),
    one,
    /thread 8 of block 0 uses index 8 of an array of type 'float ?\[8\]'/,
  ],
  [
    'bounds of a shared array',
    'through a pointer',
    kernel(
      '  __shared__ float tile[64];\n  float *p = tile + 64;\n  p[threadIdx.x] = 1;  // WRONG\n  __syncthreads();\n  out[i] = tile[threadIdx.x];',
    ),
    one,
    /writes element 64 of tile \(shared memory\), which has 256 bytes/,
  ],
  [
    'bounds of a shared array',
    'dynamic memory that the launch did not ask for',
    kernel('  extern __shared__ float tile[];\n  tile[threadIdx.x] = in[i];  // WRONG\n  out[i] = tile[threadIdx.x];'),
    { ...one, shared: 128 },
    /thread 32 of block 0 writes element 32 of dynamic shared memory/,
  ],
  [
    'bounds of a shared array',
    'dynamic memory of a launch without any',
    kernel(
      '  __shared__ float tile[64];\n  extern __shared__ float more[];\n  tile[threadIdx.x] = in[i];\n  more[threadIdx.x] = in[i];  // WRONG',
    ),
    one,
    /^k: thread 0 of block 0 uses extern __shared__ memory, but the launch gives it 0 bytes: add `shared` to the launch/,
  ],
  [
    'a race in shared memory',
    'a neighbour is read without a barrier',
    kernel(
      '  __shared__ float tile[64];\n  tile[threadIdx.x] = in[i];\n  out[i] = tile[(threadIdx.x + 63) % 64];  // WRONG',
    ),
    one,
    /races: it (writes|reads) element \d+ of tile \(shared memory\), which thread \d+ (read|wrote) with no barrier between/,
  ],
  [
    'a race in shared memory',
    'a tree without barriers',
    kernel(
      '  __shared__ float tile[64];\n  tile[threadIdx.x] = in[i];\n  __syncthreads();\n  for (int half = 32; half > 0; half /= 2)\n    if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];  // WRONG\n  if (threadIdx.x == 0) out[0] = tile[0];',
    ),
    one,
    /races: it (reads|writes) element \d+ of tile/,
  ],
  [
    'a race in shared memory',
    'the next round writes what the last still reads',
    kernel(
      '  __shared__ float tile[64];\n  float sum = 0;\n  for (int round = 0; round < 2; round++) {\n    tile[threadIdx.x] = in[i] + round;  // WRONG\n    __syncthreads();\n    sum += tile[63 - threadIdx.x];\n  }\n  out[i] = sum;',
    ),
    one,
    /races: it (writes|reads) element \d+ of tile \(shared memory\), which thread \d+ (read|wrote) with no barrier between/,
  ],
  [
    'a race in shared memory',
    'two threads write one element',
    kernel('  __shared__ float last;\n  last = in[i];  // WRONG\n  __syncthreads();\n  out[i] = last;'),
    one,
    /thread 1 of block 0 races: it writes element 0 of last \(shared memory\), which thread 0 wrote/,
  ],
  [
    'a race in shared memory',
    'between warps, with __syncwarp only',
    kernel(
      '  __shared__ float tile[64];\n  tile[threadIdx.x] = in[i];\n  __syncwarp();\n  out[i] = tile[threadIdx.x ^ 32];  // WRONG',
    ),
    one,
    /races: it (writes|reads) element \d+ of tile/,
  ],
  [
    'a race in global memory',
    'a sum without an atomic',
    kernel('  out[0] += in[i];  // WRONG'),
    whole,
    /thread 1 of block 0 races: it (reads|writes) out\[0\], which thread 0 wrote/,
  ],
  [
    'a race in global memory',
    'blocks write one element',
    kernel('  if (threadIdx.x == 0) out[0] = blockIdx.x;  // WRONG'),
    whole,
    /thread 0 of block 1 races: it writes out\[0\], which thread 0 of block 0 wrote with nothing that orders blocks/,
  ],
  [
    'a race in global memory',
    'a barrier does not order blocks',
    kernel('  out[i] = in[i];\n  __syncthreads();\n  if (i >= 64) out[i - 64] = out[i];  // WRONG'),
    whole,
    /of block 1 races: it writes out\[\d+\], which thread \d+ of block 0 wrote/,
  ],
  [
    'a race in global memory',
    'the last block adds, without a fence',
    kernel(
      '  __shared__ bool is_last;\n  if (threadIdx.x == 0) {\n    out[1 + blockIdx.x] = in[i];\n    is_last = atomicAdd(&arrived, 1u) == gridDim.x - 1;\n  }\n  __syncthreads();\n  if (is_last && threadIdx.x < gridDim.x) out[10 + threadIdx.x] = out[1 + threadIdx.x];  // WRONG',
      '__device__ unsigned arrived;',
    ),
    whole,
    /of block 3 races: it reads out\[1\], which thread 0 of block 0 wrote/,
  ],
  [
    'an asynchronous copy',
    'is read by its thread, which does not wait',
    kernel(`${copy}  out[i] = tile[threadIdx.x];  // WRONG\n  __pipeline_wait_prior(0);`, pipeline),
    one,
    /^k: thread 0 of block 0 races: it reads element 0 of tile \(shared memory\), but it has not waited for its asynchronous copy there at source\.cu:7 \(the other is at source\.cu:5\)/,
  ],
  [
    'an asynchronous copy',
    'is read by a neighbour after a barrier, but its thread waits for an earlier one',
    kernel(
      `${copy}  __pipeline_wait_prior(1);\n  __syncthreads();\n  out[i] = tile[63 - threadIdx.x];  // WRONG`,
      pipeline,
    ),
    one,
    /thread \d+ of block 0 races: it reads element \d+ of tile \(shared memory\), but thread \d+ has not waited for its asynchronous copy there/,
  ],
  [
    'an asynchronous copy',
    'is read by a neighbour, and its thread waits after the barrier',
    kernel(
      `${copy}  __syncthreads();\n  __pipeline_wait_prior(0);\n  out[i] = tile[threadIdx.x ^ 1];  // WRONG`,
      pipeline,
    ),
    one,
    /thread \d+ of block 0 races: it reads element \d+ of tile \(shared memory\)/,
  ],
  [
    'an asynchronous copy',
    'from an address that is not aligned',
    kernel(
      '  __shared__ float4 tile[16];\n  if (i < 16) __pipeline_memcpy_async(&tile[i], in + i, 16);  // WRONG',
      pipeline,
    ),
    one,
    /thread 1 of block 0 copies asynchronously from or to an address that is not a multiple of the copied bytes/,
  ],
  [
    'a barrier that is not reached',
    'in a branch',
    kernel('  if (threadIdx.x < 32) __syncthreads();  // WRONG\n  out[i] = in[i];'),
    one,
    /thread 0 of block 0 waits at a barrier that thread 32 of block 0 does not reach, because it has ended/,
  ],
  [
    'a barrier that is not reached',
    'after an early return',
    kernel('  if (i >= 40) return;\n  __syncthreads();  // WRONG\n  out[i] = in[i];'),
    one,
    /thread 0 of block 0 waits at a barrier that thread 40 of block 0 does not reach/,
  ],
  [
    'a barrier that is not reached',
    'another barrier in the other branch',
    kernel(
      '  if (threadIdx.x < 32) {\n    __syncthreads();\n    out[i] = 1;\n  } else {\n    __syncthreads();  // WRONG\n    out[i] = 2;\n  }',
    ),
    one,
    /waits at another barrier/,
  ],
  [
    'a barrier that is not reached',
    'a shuffle of a whole warp in a branch',
    kernel(
      '  float x = in[i];\n  if (threadIdx.x < 16) x += __shfl_down_sync(0xffffffffu, x, 8);  // WRONG\n  __syncthreads();\n  out[i] = x;',
    ),
    one,
    /thread 0 of block 0 waits for lanes in its mask that do not arrive, such as thread 16/,
  ],
  [
    'uninitialized shared memory',
    'a shared sum that does not start at 0',
    kernel('  __shared__ float sum;\n  atomicAdd(&sum, in[i]);  // WRONG\n  __syncthreads();\n  out[i] = sum;'),
    one,
    /thread 0 of block 0 reads element 0 of sum \(shared memory\), which no thread has written/,
  ],
  [
    'uninitialized shared memory',
    'a tile that is half filled',
    kernel(
      '  __shared__ float tile[64];\n  if (threadIdx.x < 32) tile[threadIdx.x] = in[i];\n  __syncthreads();\n  out[i] = tile[63 - threadIdx.x];  // WRONG',
    ),
    one,
    /thread 0 of block 0 reads element 63 of tile \(shared memory\), which no thread has written/,
  ],
  [
    'an address that is not aligned',
    'a float4 from any element',
    kernel(
      '  const float4 x = *reinterpret_cast<const float4 *>(in + threadIdx.x);  // WRONG\n  out[i] = x.x + x.y + x.z + x.w;',
    ),
    one,
    /thread 1 of block 0 accesses '.*float4' at an address that is not a multiple of 16/,
  ],
  [
    'a lane that does not take part',
    'reads a lane outside the mask',
    kernel('  if (threadIdx.x < 16) out[i] = __shfl_sync(0xffffu, in[i], 20);  // WRONG'),
    one,
    /thread \d+ of block 0 reads the value of a lane that is not in its mask/,
  ],
  [
    'a lane that does not take part',
    'two shuffles in two branches',
    kernel(
      '  float x = in[i];\n  if (threadIdx.x < 16)\n    x = __shfl_sync(0xffffffffu, x, 20);\n  else\n    x = __shfl_sync(0xffffffffu, x, 3);  // WRONG\n  out[i] = x;',
    ),
    one,
    /takes part in another operation of its warp than thread 0 of block 0/,
  ],
  [
    'a lane that does not take part',
    'is not in its own mask',
    kernel('  out[i] = __shfl_sync(0xffffu, in[i], 0);  // WRONG'),
    one,
    /thread 16 of block 0 is not in the mask that it names for its warp/,
  ],
  [
    'arithmetic and assertions',
    'a division by zero',
    kernel('  out[i] = n / int(threadIdx.x);  // WRONG'),
    one,
    /thread 0 of block 0 divides an integer by 0/,
  ],
  [
    'arithmetic and assertions',
    'an assertion',
    kernel('  assert(i < 63);  // WRONG\n  out[i] = in[i];', '#include <cassert>'),
    one,
    /thread 63 of block 0 fails the assertion i < 63/,
  ],
  ...Object.entries(more).flatMap(([kind, rows]) =>
    rows.map(([name, body, message, before]): Planted => [kind, name, kernel(body, before), one, message]),
  ),
];

describe('finds planted errors', () => {
  it('has at least 20 of at least 8 kinds', () => {
    expect(planted.length).toBeGreaterThanOrEqual(20);
    expect(new Set(planted.map(([kind]) => kind)).size).toBeGreaterThanOrEqual(8);
  });

  it.each(planted)('%s: %s', async (_, __, source, shape, message) => {
    const line = source.split('\n').findIndex((text) => text.includes('// WRONG')) + 1;
    const error = await run(source, shape).then(
      () => 'nothing',
      ({ message }: Error) => message.replace('gpt2_module_launch: ', ''),
    );
    expect(error).toMatch(message);
    expect(error).toContain(`source.cu:${line}`);
  });
});

const sum = (values: ArrayLike<number>) => Array.from(values).reduce((a, b) => a + b, 0);

/** Each with the start of what it writes to out. */
const right: readonly [name: string, source: string, shape: LaunchShape, expected: readonly number[]][] = [
  ['one thread per element', kernel('  if (i < n) out[i] = in[i] + 1;'), { grid: 5, block: 64 }, [1, 2, 3]],
  [
    'a tree in shared memory',
    kernel(
      '  __shared__ float tile[64];\n  tile[threadIdx.x] = in[i];\n  __syncthreads();\n  for (int half = 32; half > 0; half /= 2) {\n    if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];\n    __syncthreads();\n  }\n  if (threadIdx.x == 0) out[blockIdx.x] = tile[0];',
    ),
    whole,
    [sum(values.slice(0, 64)), sum(values.slice(64, 128))],
  ],
  [
    'a tree that ends in one warp, ordered by __syncwarp',
    kernel(
      '  __shared__ float tile[32];\n  const int lane = threadIdx.x;\n  tile[lane] = in[i];\n  __syncwarp();\n  for (int half = 16; half > 0; half /= 2) {\n    if (lane < half) tile[lane] += tile[lane + half];\n    __syncwarp();\n  }\n  out[i] = tile[0];',
    ),
    { grid: 1, block: 32 },
    [496, 496],
  ],
  [
    'shuffles and a partial warp',
    kernel(
      '  float x = in[i];\n  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);\n  out[i] = threadIdx.x < 32 ? x : __shfl_up_sync(0xff00000000u >> 32, in[i], 1);',
    ),
    { grid: 1, block: 40 },
    [496, 496],
  ],
  [
    'a lane that has ended, whose value is undefined: NaN',
    kernel('  if (threadIdx.x >= 16) return;\n  out[i] = __shfl_down_sync(0xffffffffu, in[i], 8);'),
    { grid: 1, block: 32 },
    [8, 9, 10, 11, 12, 13, 14, 15, Number.NaN],
  ],
  [
    'ballots, votes, matches',
    kernel(
      '  const unsigned even = __ballot_sync(0xffffffffu, i % 2 == 0);\n  out[i] = __popc(even) + 100 * __any_sync(0xffffffffu, i == 3) + 1000 * __all_sync(0xffffffffu, i < 64) +\n           10000 * __popc(__match_any_sync(0xffffffffu, i / 8));',
    ),
    one,
    [81_116, 81_116],
  ],
  [
    'atomics, counted by many blocks',
    kernel('  atomicAdd(&out[i % 4], 1.0f);\n  atomicMax(reinterpret_cast<int *>(&out[4]), i);'),
    whole,
    [64, 64, 64, 64],
  ],
  [
    'the last block adds, after a fence',
    kernel(
      '  __shared__ bool is_last;\n  if (threadIdx.x == 0) {\n    out[1 + blockIdx.x] = in[i];\n    __threadfence();\n    is_last = atomicAdd(&arrived, 1u) % gridDim.x == gridDim.x - 1;\n  }\n  __syncthreads();\n  if (is_last && threadIdx.x == 0) out[0] = out[1] + out[2] + out[3] + out[4];',
      '__device__ unsigned arrived;',
    ),
    whole,
    [0 + 64 + 128 + 192],
  ],
  [
    'a lock that threads wait for',
    kernel(
      '  while (atomicCAS(&lock, 0, 1) != 0) {}\n  out[0] += 1;\n  __threadfence();\n  atomicExch(&lock, 0);',
      '__device__ int lock;',
    ),
    whole,
    [256],
  ],
  [
    'neighbouring 16-bit elements of different threads',
    kernel(
      '  __nv_bfloat16 *narrow = reinterpret_cast<__nv_bfloat16 *>(out + 128);\n  narrow[i] = in[i];\n  __half *half_of = reinterpret_cast<__half *>(out + 64);\n  half_of[i] = __float2half(in[i]);\n  __syncthreads();\n  out[i] = float(narrow[63 - i]) + __half2float(half_of[i]);',
      '#include <cuda_bf16.h>\n#include <cuda_fp16.h>',
    ),
    one,
    [63, 63],
  ],
  [
    'templates, namespaces, tables, and a shared array of a template size',
    `namespace inner {
__constant__ float table[2] = {10, 20};
template <int SIZE>
__device__ float turned(float value) {
  __shared__ float tile[SIZE], other;
  tile[threadIdx.x] = value;
  if (threadIdx.x == 0) other = table[1];
  __syncthreads();
  return tile[SIZE - 1 - threadIdx.x] + other;
}
}  // namespace inner
__global__ void k(float *out, const float *in, int n) { out[threadIdx.x] = inner::turned<64>(in[threadIdx.x]); }`,
    one,
    [83, 82],
  ],
  [
    'dynamic shared memory, vectors, asynchronous copies',
    kernel(
      '  extern __shared__ float4 tile[];\n  if (threadIdx.x < 16) __pipeline_memcpy_async(&tile[threadIdx.x], in + 4 * threadIdx.x, 16);\n  __pipeline_commit();\n  __pipeline_wait_prior(0);\n  __syncthreads();\n  out[i] = reinterpret_cast<float *>(tile)[63 - threadIdx.x];',
      '#include <cuda_pipeline.h>',
    ),
    { ...one, shared: 256 },
    [63, 62],
  ],
  [
    'copies to two buffers in turn',
    kernel(
      `  __shared__ float tile[2][64];
  const auto fetch = [&](int round) {
    if (round < 4) __pipeline_memcpy_async(&tile[round % 2][threadIdx.x], in + 64 * round + threadIdx.x, 4);
    __pipeline_commit();
  };
  float sum = 0;
  fetch(0);
  for (int round = 0; round < 4; round++) {
    fetch(round + 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += tile[round % 2][63 - threadIdx.x];
    __syncthreads();
  }
  out[i] = sum;`,
      pipeline,
    ),
    one,
    [4 * 63 + 384, 4 * 62 + 384],
  ],
  [
    'copies of a group, and its wait',
    kernel(
      '  __shared__ float tile[64];\n  const auto block = cg::this_thread_block();\n  cg::memcpy_async(block, tile, in, sizeof tile);\n  cg::wait(block);\n  out[i] = tile[63 - i];',
      '#include <cooperative_groups.h>\n#include <cooperative_groups/memcpy_async.h>\nnamespace cg = cooperative_groups;',
    ),
    one,
    [63, 62],
  ],
  [
    'the ranks of a grid',
    kernel(
      '  out[i] = in[cg::this_grid().thread_rank()] + cg::this_grid().size();',
      '#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;',
    ),
    { grid: 2, block: 32 },
    Array.from({ length: 64 }, (_, index) => index + 64),
  ],
  [
    'memcpy, which CUDA declares without a header',
    kernel('  float value;\n  memcpy(&value, in + i, 4);\n  out[i] = value;'),
    one,
    [0, 1],
  ],
  [
    'a barrier in shared memory, and copies for which it waits',
    kernel(
      `  __shared__ Barrier bar;
  __shared__ float tile[64], other[64];
  if (i == 0) init(&bar, blockDim.x);
  __syncthreads();
  other[i] = in[i];
  cuda::memcpy_async(&tile[i], in + i, 4, bar);
  auto token = bar.arrive();
  bar.wait(std::move(token));
  const float value = tile[63 - i] + other[i ^ 1];
  bar.arrive_and_wait();
  other[i] = value;
  bar.arrive_and_wait();
  out[i] = other[i ^ 1];`,
      '#include <cuda/barrier>\nusing Barrier = cuda::barrier<cuda::thread_scope_block>;',
    ),
    one,
    [62 + 0, 63 + 1],
  ],
  [
    'the bits of a double',
    kernel(
      '  const long long bits = __double_as_longlong(1.5);\n  out[i] = i == 0 ? bits >> 48 : __hiloint2double(__double2hiint(1.5), 0);',
    ),
    one,
    [0x3ff8, 1.5],
  ],
  [
    'aligned shared arrays, and bounds of a launch',
    `__global__ void __launch_bounds__(64) k(float *out, const float *in, int n) {
  __shared__ __align__(16) float tile[64], other[64];
  extern __shared__ __align__(16) float dynamic[];
  tile[threadIdx.x] = other[threadIdx.x] = dynamic[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x] + other[63 - threadIdx.x] + dynamic[63 - threadIdx.x];
}`,
    { ...one, shared: 256 },
    [189, 186],
  ],
  [
    'cooperative groups',
    kernel(
      '  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());\n  out[i] = cg::reduce(tile, in[i], cg::plus<float>());\n  cg::this_thread_block().sync();',
      '#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;',
    ),
    one,
    [28, 28],
  ],
  [
    'a barrier that counts, in three dimensions',
    kernel(
      '  const int at = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n  out[at] = __syncthreads_count(at < 10) + __syncthreads_or(at == 5) + __syncthreads_and(at >= 0);',
    ),
    { grid: 1, block: [4, 4, 4] },
    [12, 12],
  ],
  [
    'memset in shared memory, memcpy out of it',
    kernel(
      '  __shared__ float tile[64];\n  if (i == 0) memset(tile, 0, n);\n  __syncthreads();\n  if (i < 8) tile[i] += in[i];\n  __syncthreads();\n  if (i == 0) memcpy(out, tile, n);',
    ),
    one,
    [0, 1, 2, 3, 4, 5, 6, 7, 0],
  ],
  [
    'memory from malloc: used by a block, and later than its launch',
    kernel(
      '  __shared__ float *own;\n  if (i == 0) own = kept = new float[64];\n  __syncthreads();\n  own[i] = in[i];\n  __syncthreads();\n  float *mine = (float *)malloc(8);\n  mine[1] = kept[63 - i];\n  out[i] = mine[1];\n  free(mine);',
      '__device__ float *kept;',
    ),
    one,
    [63, 62, 61],
  ],
  [
    'shared arrays outside of functions, hidden by names within',
    kernel(
      '  tile[i] = in[i];\n  dynamic[i] = 1;\n  __syncthreads();\n  out[i] = turned(i) + other(tile) + (sizeof tile == 256);\n  { float tile = 2; out[i] += tile; }',
      '__shared__ float tile[64], one;\nextern __shared__ float dynamic[];\n__device__ float turned(int i) { return tile[63 - i] * dynamic[i]; }\n__device__ float other(const float *tile) { return 7; }\n',
    ),
    { ...one, shared: 256 },
    [63 + 7 + 3, 62 + 7 + 3],
  ],
];

describe('runs correct kernels', () => {
  it.each(right)('%s', async (_, source, shape, expected) => {
    const checked = await run(source, shape);
    expect(Array.from(checked.slice(0, expected.length))).toEqual(expected);
    expect(await run(source, shape, false)).toEqual(checked);
  });

  it('converts all 16-bit floats and back', async () => {
    const test = (type: string, from: string) =>
      `for (int bits = 0; bits < 65536; bits++) {
        ${type} x;
        x.bits = bits;
        const float value = x;
        if (value == value && ${from}(value).bits != bits) out[0] += 1;
      }
      // Half way to the next one, and a little more.
      out[1] += ${from}(1 + EPSILON / 2).bits - ${from}(1).bits + 10 * (${from}(1 + EPSILON / 2 + 1e-6f).bits - ${from}(1).bits);`;
    const source = kernel(
      `#define EPSILON 0.0078125f\n${test('__nv_bfloat16', '__float2bfloat16')}
      #undef EPSILON\n#define EPSILON 0.0009765625f\n${test('__half', '__float2half')}`,
      '#include <cuda_bf16.h>\n#include <cuda_fp16.h>',
    );
    expect(Array.from((await run(source, { grid: 1, block: 1 }, false)).slice(0, 2))).toEqual([0, 20]);
  });

  it('ends a launch that is stuck without checks, too', async () => {
    const source = kernel('  if (threadIdx.x < 32) __syncthreads();\n  out[i] = in[i];');
    await expect(run(source, one, false)).rejects.toThrow(/k: thread 0 of block 0 waits at a barrier/);
    expect(await run(kernel('  out[i] = in[i];'), whole, false)).toEqual(values);
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
    const file = (name: string) => JSON.stringify(join(packageRoot, 'src', name));
    const program = `
      import { compileKernels } from ${file('ops/kernels/compile.ts')};
      import { tensorOf } from ${file('native/tensor.ts')};
      import { Device } from ${file('native/device.ts')};
      const device = Device.open({ kind: 'cpu', threads: 2 });
      for (const source of ${JSON.stringify(doubtful.map(([, body]) => kernel(body)))}) {
        const { k } = await compileKernels(device, { source });
        const [out, values] = [new Float32Array(${n}), Float32Array.from({ length: ${n} }, (_, i) => i)].map((each) => tensorOf(device, each));
        for (let launch = 0; launch < 2; launch++) {
          out.write(new Float32Array(${n}));
          k.launch({ grid: 4, block: 64 }, out, values, ${n});
        }
        process.stderr.write('====');
        console.log([...new Uint32Array(out.read().buffer)].slice(0, 2).join(' '));
      }`;
    const path = place.path('doubtful.mts');
    writeFileSync(path, program);
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', path], { encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    // A sanitizer prints lines of its own before.
    const warnings = stderr.split('====').map((text) => text.replace(/^==[\s\S]*?(?=^warning: )/m, ''));
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

describe('survives what a kernel does without checks', () => {
  it.each([
    ['a write far outside', '  out[1ll << 40] = 1;', /accesses memory that does not exist, at 0x\w+ at source\.cu:4/],
    ['a division by zero', '  out[i] = n / i;', /divides an integer by 0, or .* at source\.cu:4/],
    ['a function without end', '  out[i] = f(i);', /fills its stack of 512 KiB: .* at source\.cu:1/],
    ['a large local array', '  volatile char own[700000];\n  own[i] = 1;\n  out[i] = own[i];', /fills its stack/],
  ])('%s', async (_, body, message) => {
    const f = '__device__ __noinline__ int f(int x) { volatile int own = x; return f(x + 1) + own; }';
    await expect(run(kernel(body, f), one, false)).rejects.toThrow(message);
    expect(await run(kernel('  out[i] = in[i];'), whole, false)).toEqual(values);
  });
});

describe('refuses', () => {
  it.each([
    ['a syntax error', 'const float x = ;', /source\.cu:4:\d+: error: .*\n.*const float x = ;\n.*\^/],
    ['inline PTX', 'asm volatile("mma.sync");', /^source\.cu:4: error: inline PTX does not run on a CPU/],
    [
      'a function that a GPU lacks',
      'strcpy((char *)out, "a");',
      /^source\.cu:4: error: a GPU does not have this function/,
    ],
    [
      'a launch by the host',
      'k<<<1, 2>>>(out, in, n);',
      /^source\.cu:4: error: this is code of the host: leave only kernels/,
    ],
    [
      'larger declared arrays than a block can have',
      '__shared__ float tile[64][256];\n tile[0][0] = 1;',
      /declares tile \(shared memory\): a block's declared arrays have 65536 bytes with it; the most is 49152, more needs extern __shared__ memory at source\.cu:4/,
    ],
  ])('%s', async (_, body, message) => {
    await expect(run(kernel(body), one)).rejects.toThrow(message);
  });

  it('a barrier of the grid', async () => {
    const source = kernel('  cooperative_groups::this_grid().sync();', '#include <cooperative_groups.h>');
    await expect(run(source, one)).rejects.toThrow(
      /source\.cu:\d+:.*\n[\s\S]*barriers of a grid are not emulated on a CPU/,
    );
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

  it('a main function', async () => {
    const source = `#include <iostream>\n${kernel('  printf("<<<");')}\nint main() {\n  cudaDeviceSynchronize();\n}\n`;
    await expect(run(source, one)).rejects.toThrow(
      /^source\.cu:8: error: this is code of the host: .*\n {2}int main\(\) \{$/,
    );
  });

  it.each(['cub/cub.cuh', 'curand_kernel.h', 'cuda/pipeline'])('the header %s', async (header) => {
    await expect(run(kernel('', `#include <${header}>`), one)).rejects.toThrow(
      new RegExp(
        `^source\\.cu:1: error: ${header} is not emulated on a CPU: run this kernel on a GPU, or write it without$`,
      ),
    );
  });

  it('a source that ends too early, at its last line', async () => {
    await expect(run('__global__ void k(float *out) {\n  out[0] = 1;\n', one)).rejects.toThrow(
      /source\.cu:2:\d+: error: expected .}.* *\n {2}out\[0\] = 1;\n/,
    );
  });

  it('tensor cores', async () => {
    await expect(run(kernel('', '#include <mma.h>'), one)).rejects.toThrow(/tensor cores .* are not emulated/);
  });

  it('a machine without a compiler', async () => {
    vi.stubEnv('CXX', place.path('none'));
    await expect(run(kernel('// changed'), one)).rejects.toThrow(
      /^there is no C\+\+ compiler, which kernels need on a CPU/,
    );
    vi.stubEnv('CXX', undefined);
  });
});
