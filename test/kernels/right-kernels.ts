// Kernels without an error: name, source, launch, and the start of what each writes to out.
import { one, type Rest, sourceOf, values, whole } from './kernel-cases.ts';

const sum = (values: ArrayLike<number>) => Array.from(values).reduce((a, b) => a + b, 0);

type Row = readonly [body: string, expected: readonly number[], rest?: Rest];

const rows: Readonly<Record<string, Row>> = {
  'one thread per element': ['  if (i < n) out[i] = in[i] + 1;', [1, 2, 3], { shape: { grid: 5, block: 64 } }],
  'a text of the file and an argument by the same access': [
    '  const char *from = i & 1 ? "abcdefgh" : (const char *)in;\n  out[i] = from[i / 2];',
    [0, 97, 0, 98],
    { shape: { grid: 1, block: 8 } },
  ],
  'a tree in shared memory': [
    '  __shared__ float tile[64];\n  tile[threadIdx.x] = in[i];\n  __syncthreads();\n  for (int half = 32; half > 0; half /= 2) {\n    if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];\n    __syncthreads();\n  }\n  if (threadIdx.x == 0) out[blockIdx.x] = tile[0];',
    [sum(values.slice(0, 64)), sum(values.slice(64, 128))],
    { shape: whole },
  ],
  'a tree that ends in one warp, ordered by __syncwarp': [
    '  __shared__ float tile[32];\n  const int lane = threadIdx.x;\n  tile[lane] = in[i];\n  __syncwarp();\n  for (int half = 16; half > 0; half /= 2) {\n    if (lane < half) tile[lane] += tile[lane + half];\n    __syncwarp();\n  }\n  out[i] = tile[0];',
    [496, 496],
    { shape: { grid: 1, block: 32 } },
  ],
  'shuffles and a partial warp': [
    '  float x = in[i];\n  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);\n  out[i] = threadIdx.x < 32 ? x : __shfl_up_sync(0xff00000000u >> 32, in[i], 1);',
    [496, 496],
    { shape: { grid: 1, block: 40 } },
  ],
  'a shuffle of the lanes that have not ended': [
    '  if (threadIdx.x >= 16) return;\n  out[i] = __shfl_xor_sync(0xffffffffu, in[i], 8);',
    [8, 9, 10, 11, 12, 13, 14, 15, 0],
    { shape: { grid: 1, block: 32 } },
  ],
  'half a warp that goes on to a further operation before the others have read their values': [
    '  out[i] = __shfl_up_sync(0xffffffffu, in[i], 16);\n  if (i < 16) out[i] += __shfl_sync(0xffffu, 100.0f, 0);',
    Array.from({ length: 32 }, (_, i) => (i < 16 ? i + 100 : i - 16)),
    { shape: { grid: 1, block: 32 } },
  ],
  'atomics, counted by many blocks': [
    '  atomicAdd(&out[i % 4], 1.0f);\n  atomicMax(reinterpret_cast<int *>(&out[4]), i);',
    [64, 64, 64, 64],
    { shape: whole },
  ],
  'the last block adds, after a fence': [
    '  __shared__ bool is_last;\n  if (threadIdx.x == 0) {\n    out[1 + blockIdx.x] = in[i];\n    __threadfence();\n    is_last = atomicAdd(&arrived, 1u) % gridDim.x == gridDim.x - 1;\n  }\n  __syncthreads();\n  if (is_last && threadIdx.x == 0) out[0] = out[1] + out[2] + out[3] + out[4];',
    [0 + 64 + 128 + 192],
    { before: '__device__ unsigned arrived;', shape: whole },
  ],
  'two warps, of which one lane signals and one waits for all': [
    '  __shared__ float tile[32];\n  const int lane = threadIdx.x % 32;\n  if (threadIdx.x < 32) {\n    tile[lane] = in[i];\n    __syncwarp();\n    out[i] = tile[31 - lane];\n    __syncwarp();\n    if (lane == 1) {\n      __threadfence();\n      atomicExch(&flag, 1);\n    }\n  } else {\n    if (lane == 0) while (atomicAdd(&flag, 0) == 0) {}\n    __syncwarp();\n    out[i] = tile[31 - lane];\n    __syncwarp();\n    tile[lane] = 0;\n  }',
    Array.from({ length: 64 }, (_, i) => 31 - (i % 32)),
    { before: '__device__ int flag;' },
  ],
  'a lock that threads wait for': [
    '  while (atomicCAS_system(&lock, 0, 1) != 0) {}\n  out[0] += 1;\n  __threadfence();\n  atomicExch(&lock, 0);',
    [256],
    { before: '__device__ int lock;', shape: whole },
  ],
  'neighbouring 16-bit elements of different threads': [
    '  __nv_bfloat16 *narrow = reinterpret_cast<__nv_bfloat16 *>(out + 128);\n  narrow[i] = in[i];\n  __half *half_of = reinterpret_cast<__half *>(out + 64);\n  half_of[i] = __float2half(in[i]);\n  __syncthreads();\n  out[i] = float(narrow[63 - i]) + __half2float(half_of[i]);',
    [63, 63],
    { before: '#include <cuda_bf16.h>\n#include <cuda_fp16.h>' },
  ],
  'templates, namespaces, tables, and a shared array of a template size': [
    '',
    [83, 82],
    {
      source: `namespace inner {
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
    },
  ],
  'dynamic shared memory, vectors, asynchronous copies': [
    '  extern __shared__ float4 tile[];\n  if (threadIdx.x < 16) __pipeline_memcpy_async(&tile[threadIdx.x], in + 4 * threadIdx.x, 16);\n  __pipeline_commit();\n  __pipeline_wait_prior(0);\n  __syncthreads();\n  out[i] = reinterpret_cast<float *>(tile)[63 - threadIdx.x];',
    [63, 62],
    { before: '#include <cuda_pipeline.h>', shape: { ...one, shared: 256 } },
  ],
  'dynamic shared memory with rows': [
    '  extern __shared__ float rows[][8];\n  rows[i / 8][i % 8] = in[i];\n  __syncthreads();\n  out[i] = rows[7 - i / 8][i % 8];',
    [56, 57, 58],
    { shape: { ...one, shared: 256 } },
  ],
  'copies of a pipeline': [
    '  __shared__ float tile[64];\n  auto pipe = cuda::make_pipeline();\n  pipe.producer_acquire();\n  cuda::memcpy_async(&tile[i], in + i, cuda::aligned_size_t<4>(4), pipe);\n  pipe.producer_commit();\n  pipe.consumer_wait();\n  __syncthreads();\n  out[i] = tile[63 - i];\n  pipe.consumer_release();',
    [63, 62],
    { before: '#include <cuda/pipeline>' },
  ],
  'copies to two buffers in turn': [
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
    [4 * 63 + 384, 4 * 62 + 384],
    { before: '#include <cuda_pipeline.h>' },
  ],
  'copies of a group, and its wait': [
    '  __shared__ float tile[64];\n  const auto block = cg::this_thread_block();\n  cg::memcpy_async(block, tile, in, sizeof tile);\n  cg::wait(block);\n  out[i] = tile[63 - i];',
    [63, 62],
    {
      before:
        '#include <cooperative_groups.h>\n#include <cooperative_groups/memcpy_async.h>\nnamespace cg = cooperative_groups;',
    },
  ],
  'memcpy, declared without a header': ['  float value;\n  memcpy(&value, in + i, 4);\n  out[i] = value;', [0, 1]],
  'a barrier in shared memory, and copies for which it waits': [
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
    [62 + 0, 63 + 1],
    { before: '#include <cuda/barrier>\nusing Barrier = cuda::barrier<cuda::thread_scope_block>;' },
  ],
  'aligned shared arrays, and bounds of a launch': [
    '',
    [189, 186],
    {
      source: `__global__ void __launch_bounds__(64) k(float *out, const float *in, int n) {
  __shared__ __align__(16) float tile[64], other[64];
  extern __shared__ __align__(16) float dynamic[];
  tile[threadIdx.x] = other[threadIdx.x] = dynamic[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x] + other[63 - threadIdx.x] + dynamic[63 - threadIdx.x];
}`,
      shape: { ...one, shared: 256 },
    },
  ],
  'a barrier that counts, in three dimensions': [
    '  const int at = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n  out[at] = __syncthreads_count(at < 10) + __syncthreads_or(at == 5) + __syncthreads_and(at >= 0);',
    [12, 12],
    { shape: { grid: 1, block: [4, 4, 4] } },
  ],
  'memset in shared memory, memcpy out of it': [
    '  __shared__ float tile[64];\n  if (i == 0) memset(tile, 0, n);\n  __syncthreads();\n  if (i < 8) tile[i] += in[i];\n  __syncthreads();\n  if (i == 0) memcpy(out, tile, n);',
    [0, 1, 2, 3, 4, 5, 6, 7, 0],
  ],
  'memory from malloc: used by a block, and later than its launch': [
    '  __shared__ float *own;\n  if (i == 0) own = kept = new float[64];\n  __syncthreads();\n  own[i] = in[i];\n  __syncthreads();\n  float *mine = (float *)malloc(8);\n  mine[1] = kept[63 - i];\n  out[i] = mine[1];\n  free(mine);',
    [63, 62, 61],
    { before: '__device__ float *kept;' },
  ],
  'an object with virtual functions that is constructed in shared memory': [
    '  __shared__ alignas(8) char place[8];\n  __shared__ Any *made;\n  if (i == 0) made = new (place) Twice;\n  __syncthreads();\n  out[i] = made->of(in[i]);',
    [0, 2, 4],
    {
      before:
        '#include <new>\nstruct Any { __device__ virtual float of(float x) const = 0; };\nstruct Twice : Any { __device__ float of(float x) const override { return 2 * x; } };\n',
    },
  ],
  'shared arrays outside of functions, hidden by names within': [
    '  tile[i] = in[i];\n  dynamic[i] = 1;\n  __syncthreads();\n  out[i] = turned(i) + other(tile) + (sizeof tile == 256);\n  { float tile = 2; out[i] += tile; }',
    [63 + 7 + 3, 62 + 7 + 3],
    {
      before:
        '__shared__ float tile[64], one;\nextern __shared__ float dynamic[];\n__device__ float turned(int i) { return tile[63 - i] * dynamic[i]; }\n__device__ float other(const float *tile) { return 7; }\n',
      shape: { ...one, shared: 256 },
    },
  ],
};

export const rightKernels = Object.entries(rows).map(([name, [body, expected, rest]]) => ({
  name,
  expected,
  ...sourceOf(body, rest),
}));
