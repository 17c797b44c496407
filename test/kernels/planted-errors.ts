// Kernels with an error each, by its kind: the emulator reports it at the line that is marked as wrong.
import { type Rest, sourceOf, whole } from './kernel-cases.ts';

const pipeline = '#include <cuda_pipeline.h>';
const copy =
  '  __shared__ float tile[64];\n  __pipeline_memcpy_async(&tile[threadIdx.x], in + i, 4);\n  __pipeline_commit();\n';

type Row = readonly [body: string, message: RegExp, rest?: Rest];

const rows: Readonly<Record<string, Readonly<Record<string, Row>>>> = {
  'bounds of a tensor': {
    'reads one past the end': [
      '  out[i] = in[i + 1];  // WRONG',
      /^k: thread 63 of block 3 reads in\[256\], but in has 256 elements/,
      { shape: whole },
    ],
    'writes without a guard': [
      '  out[i] = 1;  // WRONG',
      /^k: thread 0 of block 4 writes out\[256\], but out has 256 elements/,
      { shape: { grid: 5, block: 64 } },
    ],
    'reads before the start': [
      '  out[i] = i > 0 ? in[i - 2] : 0;  // WRONG',
      /thread 1 of block 0 reads in\[-1\]/,
      { shape: whole },
    ],
    'a vector across the end': [
      '  const float4 *v = reinterpret_cast<const float4 *>(in);\n  const float4 x = v[i];  // WRONG\n  out[i] = x.x + x.w;',
      /thread 0 of block 1 reads in\[256\]/,
      { shape: { grid: 2, block: 64 } },
    ],
    'an atomic past the end': ['  atomicAdd(&out[n], in[i]);  // WRONG', /writes out\[256\], but out has 256 elements/],
  },
  'bounds of a shared array': {
    'a constant index too large': [
      '  __shared__ float tile[64];\n  tile[threadIdx.x + 1] = 1;  // WRONG\n  __syncthreads();\n  out[i] = tile[threadIdx.x];',
      /thread 63 of block 0 uses index 64 of an array of type 'float ?\[64\]'/,
    ],
    'the second index too large': [
      '  __shared__ float tile[8][8];\n  tile[threadIdx.x / 8][threadIdx.x % 9] = 1;  // WRONG\n  __syncthreads();\n  out[i] = tile[0][0];',
      /thread 8 of block 0 uses index 8 of an array of type 'float ?\[8\]'/,
    ],
    'through a pointer': [
      '  __shared__ float tile[64];\n  float *p = tile + 64;\n  p[threadIdx.x] = 1;  // WRONG\n  __syncthreads();\n  out[i] = tile[threadIdx.x];',
      /writes element 64 of tile \(shared memory\), which has 256 bytes/,
    ],
    'dynamic memory that the launch did not ask for': [
      '  extern __shared__ float tile[];\n  tile[threadIdx.x] = in[i];  // WRONG\n  out[i] = tile[threadIdx.x];',
      /thread 32 of block 0 writes element 32 of the dynamic array/,
      { shape: { grid: 1, block: 64, shared: 128 } },
    ],
    'dynamic memory of a launch without any': [
      '  __shared__ float tile[64];\n  extern __shared__ float more[];\n  tile[threadIdx.x] = in[i];\n  more[threadIdx.x] = in[i];  // WRONG',
      /^k: thread 0 of block 0 uses extern __shared__ memory, but the launch gives it 0 bytes: add `shared` to the launch/,
    ],
    'into the array declared with it': [
      '  __shared__ float tile[64], other[64];\n  float *p = tile;\n  other[i] = 0;\n  p[i + 1] = in[i];  // WRONG\n  __syncthreads();\n  out[i] = other[i];',
      /thread 63 of block 0 writes element 64 of tile \(shared memory\), which has 256 bytes/,
    ],
  },
  'a race in shared memory': {
    'a neighbour is read without a barrier': [
      '  __shared__ float tile[64];\n  tile[threadIdx.x] = in[i];\n  out[i] = tile[(threadIdx.x + 63) % 64];  // WRONG',
      /races: it (writes|reads) element \d+ of tile \(shared memory\), which thread \d+ (read|wrote) with no barrier between/,
    ],
    'a tree without barriers': [
      '  __shared__ float tile[64];\n  tile[threadIdx.x] = in[i];\n  __syncthreads();\n  for (int half = 32; half > 0; half /= 2)\n    if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];  // WRONG\n  if (threadIdx.x == 0) out[0] = tile[0];',
      /races: it (reads|writes) element \d+ of tile/,
    ],
    'the next round writes what the last still reads': [
      '  __shared__ float tile[64];\n  float sum = 0;\n  for (int round = 0; round < 2; round++) {\n    tile[threadIdx.x] = in[i] + round;  // WRONG\n    __syncthreads();\n    sum += tile[63 - threadIdx.x];\n  }\n  out[i] = sum;',
      /races: it (writes|reads) element \d+ of tile \(shared memory\), which thread \d+ (read|wrote) with no barrier between/,
    ],
    'two threads write one element': [
      '  __shared__ float last;\n  last = in[i];  // WRONG\n  __syncthreads();\n  out[i] = last;',
      /thread 1 of block 0 races: it writes element 0 of last \(shared memory\), which thread 0 wrote/,
    ],
    'between warps, with __syncwarp only': [
      '  __shared__ float tile[64];\n  tile[threadIdx.x] = in[i];\n  __syncwarp();\n  out[i] = tile[threadIdx.x ^ 32];  // WRONG',
      /races: it (writes|reads) element \d+ of tile/,
    ],
  },
  'a race in global memory': {
    'a sum without an atomic': [
      '  out[0] += in[i];  // WRONG',
      /thread 1 of block 0 races: it (reads|writes) out\[0\], which thread 0 wrote/,
      { shape: whole },
    ],
    'a sum of one thread, whose value another writes': [
      '  if (threadIdx.x == 0) out[0] += 1;\n  if (threadIdx.x == 1) out[0] = 1;  // WRONG',
      /thread 1 of block 0 races: it writes out\[0\], which thread 0 read/,
    ],
    'blocks write one element': [
      '  if (threadIdx.x == 0) out[0] = blockIdx.x;  // WRONG',
      /thread 0 of block 1 races: it writes out\[0\], which thread 0 of block 0 wrote with nothing that orders blocks/,
      { shape: whole },
    ],
    'a barrier does not order blocks': [
      '  out[i] = in[i];\n  __syncthreads();\n  if (i >= 64) out[i - 64] = out[i];  // WRONG',
      /of block 1 races: it writes out\[\d+\], which thread \d+ of block 0 wrote/,
      { shape: whole },
    ],
    'the last block adds, without a fence': [
      '  __shared__ bool is_last;\n  if (threadIdx.x == 0) {\n    out[1 + blockIdx.x] = in[i];\n    is_last = atomicAdd(&arrived, 1u) == gridDim.x - 1;\n  }\n  __syncthreads();\n  if (is_last && threadIdx.x < gridDim.x) out[10 + threadIdx.x] = out[1 + threadIdx.x];  // WRONG',
      /of block 3 races: it reads out\[1\], which thread 0 of block 0 wrote/,
      { before: '__device__ unsigned arrived;', shape: whole },
    ],
  },
  'an asynchronous copy': {
    'is read by its thread, which does not wait': [
      `${copy}  out[i] = tile[threadIdx.x];  // WRONG\n  __pipeline_wait_prior(0);`,
      /^k: thread 0 of block 0 races: it reads element 0 of tile \(shared memory\), but it has not waited for its asynchronous copy there at source\.cu:7 \(the other is at source\.cu:5\)/,
      { before: pipeline },
    ],
    'is read by a neighbour after a barrier, but its thread waits for an earlier one': [
      `${copy}  __pipeline_wait_prior(1);\n  __syncthreads();\n  out[i] = tile[63 - threadIdx.x];  // WRONG`,
      /thread \d+ of block 0 races: it reads element \d+ of tile \(shared memory\), but thread \d+ has not waited for its asynchronous copy there/,
      { before: pipeline },
    ],
    'is read by a neighbour, and its thread waits after the barrier': [
      `${copy}  __syncthreads();\n  __pipeline_wait_prior(0);\n  out[i] = tile[threadIdx.x ^ 1];  // WRONG`,
      /thread \d+ of block 0 races: it reads element \d+ of tile \(shared memory\)/,
      { before: pipeline },
    ],
    'from an address that is not aligned': [
      '  __shared__ float4 tile[16];\n  if (i < 16) __pipeline_memcpy_async(&tile[i], in + i, 16);  // WRONG',
      /thread 1 of block 0 copies asynchronously from or to an address that is not a multiple of the copied bytes/,
      { before: pipeline },
    ],
  },
  'a barrier that is not reached': {
    'in a branch': [
      '  if (threadIdx.x < 32) __syncthreads();  // WRONG\n  out[i] = in[i];',
      /thread 0 of block 0 waits at a barrier that thread 32 of block 0 does not reach, because it has ended/,
    ],
    'after an early return': [
      '  if (i >= 40) return;\n  __syncthreads();  // WRONG\n  out[i] = in[i];',
      /thread 0 of block 0 waits at a barrier that thread 40 of block 0 does not reach/,
    ],
    'another barrier in the other branch': [
      '  if (threadIdx.x < 32) {\n    __syncthreads();\n    out[i] = 1;\n  } else {\n    __syncthreads();  // WRONG\n    out[i] = 2;\n  }',
      /waits at another barrier/,
    ],
    'a shuffle of a whole warp in a branch': [
      '  float x = in[i];\n  if (threadIdx.x < 16) x += __shfl_down_sync(0xffffffffu, x, 8);  // WRONG\n  __syncthreads();\n  out[i] = x;',
      /thread 0 of block 0 waits for lanes in its mask that do not arrive, such as thread 16/,
    ],
  },
  'uninitialized shared memory': {
    'a shared sum that does not start at 0': [
      '  __shared__ float sum;\n  atomicAdd(&sum, in[i]);  // WRONG\n  __syncthreads();\n  out[i] = sum;',
      /thread 0 of block 0 reads element 0 of sum \(shared memory\), which no thread has written/,
    ],
    'a tile that is half filled': [
      '  __shared__ float tile[64];\n  if (threadIdx.x < 32) tile[threadIdx.x] = in[i];\n  __syncthreads();\n  out[i] = tile[63 - threadIdx.x];  // WRONG',
      /thread 0 of block 0 reads element 63 of tile \(shared memory\), which no thread has written/,
    ],
  },
  'an address that is not aligned': {
    'a float4 from any element': [
      '  const float4 x = *reinterpret_cast<const float4 *>(in + threadIdx.x);  // WRONG\n  out[i] = x.x + x.y + x.z + x.w;',
      /thread 1 of block 0 accesses '.*float4' at an address that is not a multiple of 16/,
    ],
  },
  'a lane that does not take part': {
    'reads a lane outside the mask': [
      '  if (threadIdx.x < 16) out[i] = __shfl_sync(0xffffu, in[i], 20);  // WRONG',
      /thread \d+ of block 0 reads the value of a lane that is not in its mask/,
    ],
    'a shuffle of integers from a lane that has ended': [
      '  if (i >= 20) return;\n  int x = in[i];\n  x += __shfl_down_sync(0xffffffffu, x, 8);  // WRONG\n  out[i] = x;',
      /thread 12 of block 0 reads the value of lane 20, which has ended and left it undefined/,
    ],
    'two shuffles in two branches': [
      '  float x = in[i];\n  if (threadIdx.x < 16)\n    x = __shfl_sync(0xffffffffu, x, 20);\n  else\n    x = __shfl_sync(0xffffffffu, x, 3);  // WRONG\n  out[i] = x;',
      /takes part in another operation of its warp than thread 0 of block 0/,
    ],
    'is not in its own mask': [
      '  out[i] = __shfl_sync(0xffffu, in[i], 0);  // WRONG',
      /thread 16 of block 0 is not in the mask that it names for its warp/,
    ],
    'a shuffle in a width of 64': [
      '  out[i] = __shfl_down_sync(~0u, in[i], 1, 64);  // WRONG',
      /in a width that is not 1, 2, 4, 8, 16 or 32/,
    ],
    'a shuffle in a width of 0': [
      '  out[i] = __shfl_down_sync(~0u, in[i], 1, n - 256);  // WRONG',
      /in a width that is not 1, 2, 4, 8, 16 or 32/,
    ],
    'a shuffle by -1': ['  out[i] = __shfl_xor_sync(~0u, in[i], -1);  // WRONG', /by a distance that is not 0 to 32/],
    'a shuffle by 40': ['  out[i] = __shfl_up_sync(~0u, in[i], 40);  // WRONG', /by a distance that is not 0 to 32/],
  },
  'arithmetic and assertions': {
    'a division by zero': ['  out[i] = n / int(threadIdx.x);  // WRONG', /thread 0 of block 0 divides an integer by 0/],
    'an assertion': [
      '  assert(i < 63);  // WRONG\n  out[i] = in[i];',
      /thread 63 of block 0 fails the assertion i < 63/,
      { before: '#include <cassert>' },
    ],
  },
  'bytes that a function copies': {
    'long memcpy': ['  if (i == 0) memcpy(out, in, 4 * n + 4);  // WRONG', /reads in\[256\], but in has 256 elements/],
    'memmove past the end': [
      '  if (i == 0) memmove(out + 1, in, 4 * n);  // WRONG',
      /writes out\[256\], but out has 256 elements/,
    ],
    'memcpy of a constant length': [
      '  float x[8];\n  memcpy(x, in + 4 * i + 4, 32);  // WRONG\n  out[i] = x[0];',
      /thread 62 of block 0 reads in\[256\], but in has 256 elements/,
    ],
    'memset of what another thread wrote': [
      '  __shared__ float tile[64];\n  tile[i] = 1;\n  if (i == 5) memset(tile, 0, n);  // WRONG\n  __syncthreads();\n  out[i] = tile[i];',
      /thread 5 of block 0 races: it writes byte 0 of tile \(shared memory\), which thread 0 wrote/,
    ],
    'std::copy of floats': [
      '  if (i == 0) std::copy(in, in + n + 1, out);  // WRONG',
      /reads in\[256\], but in has 256 elements/,
    ],
    'std::fill': [
      '  if (i == 0) std::fill(out, out + n + 1, 1.0f);  // WRONG',
      /writes out\[256\], but out has 256 elements/,
    ],
  },
  'variables of the file': {
    'a race in a __device__ array': [
      '  counts[0] = i;  // WRONG',
      /thread 1 of block 0 races: it writes element 0 of counts, which thread 0 wrote/,
      { before: '__device__ int counts[4];' },
    ],
    'past a __device__ array': [
      '  int *p = counts;\n  p[i] = 1 + other[0];  // WRONG',
      /thread 4 of block 0 writes element 4 of counts, which has 16 bytes/,
      { before: '__device__ int counts[4], other[4];' },
    ],
    'past one with values, in a namespace': [
      '  int *p = inner::counts;\n  p[i] = 1 + inner::other[0];  // WRONG',
      /thread 4 of block 0 writes element 4 of inner::counts, which has 16 bytes/,
      { before: 'namespace inner {\nstatic __device__ int counts[4] = {1, 2}, other[4];\n}' },
    ],
    'past a table of constants': [
      '  const float *p = table;\n  out[i] = p[i];  // WRONG',
      /thread 4 of block 0 reads element 4 of table, which has 16 bytes/,
      { before: '__constant__ float table[] = {1, 2, 3, 4};' },
    ],
    'a write to a constant': [
      '  table[0] = in[i];  // WRONG',
      /thread 0 of block 0 writes element 0 of table, which is constant/,
      { before: '__constant__ float table[4];' },
    ],
    'past a shared array outside of functions': [
      '  float *p = tile;\n  p[i + 1] = 1;  // WRONG',
      /thread 63 of block 0 writes element 64 of tile \(shared memory\), which has 256 bytes/,
      { before: '__shared__ float tile[64], other[64];' },
    ],
  },
  'memory from malloc': {
    'more than a GPU has for it': [
      '  float *p = (float *)malloc(9 << 20);\n  out[i] = p[i];  // WRONG',
      /reads through a null pointer/,
    ],
    'past its end': [
      '  float *p = (float *)malloc(8);\n  p[2] = in[i];  // WRONG\n  free(p);',
      /thread 0 of block 0 writes element 2 of memory from malloc, which has 8 bytes/,
    ],
    'is freed twice': [
      '  float *p = new float[4];\n  p[0] = in[i];\n  delete[] p;\n  delete[] p;  // WRONG',
      /thread 0 of block 0 frees an address that malloc did not return, or that is free/,
    ],
    'a race': [
      '  __shared__ float *p;\n  if (i == 0) p = new float[64];\n  __syncthreads();\n  p[i] = in[i];\n  out[i] = p[63 - i];  // WRONG',
      /races: it (writes|reads) element \d+ of memory from malloc/,
    ],
  },
  'a header of the emulator': {
    '__ldg past the end': ['  out[i] = __ldg(in + i + 200);  // WRONG', /thread 56 of block 0 reads in\[256\]/],
    '__ldcs of what another thread writes': [
      '  out[i] = 1; out[i] += __ldcs(out + (i ^ 1));  // WRONG',
      /thread \d of block 0 races: it (writes|reads) out\[\d\]/,
    ],
    '__ldg of a vector that is not aligned': [
      '  out[i] = __ldg(reinterpret_cast<const float4 *>(in + i)).x;  // WRONG',
      /accesses 'const struct float4' at an address that is not a multiple of 16/,
    ],
    'a 16-bit number past the end': [
      '  reinterpret_cast<__half *>(out)[i + 500] += __half(1.0f);  // WRONG',
      /thread 12 of block 0 reads out\[256\]/,
      { before: '#include <cuda_fp16.h>' },
    ],
    'a barrier of a group that is not reached': [
      '  if (i < 32) cooperative_groups::this_thread_block().sync();  // WRONG',
      /thread 0 of block 0 waits at a barrier that thread 32/,
      { before: '#include <cooperative_groups.h>' },
    ],
  },
  PTX: {
    'a load past the end': [
      '  asm("ld.global.nc.f32 %0, [%1 + 800];" : "=f"(out[i]) : "l"(in + i));  // WRONG',
      /thread 56 of block 0 reads in\[256\]/,
    ],
    'an asynchronous copy without a wait': [
      '  __shared__ float tile[64];\n  const unsigned at = __cvta_generic_to_shared(tile + i);\n  asm("cp.async.ca.shared.global [%0], [%1], 4;\\n"\n      "cp.async.commit_group;" :: "r"(at), "l"(in + i));\n  __syncthreads();\n  out[i] = tile[i ^ 1];  // WRONG',
      /has not waited for its asynchronous copy/,
    ],
    'a row of a matrix that is not aligned': [
      '  __shared__ alignas(16) short tile[512];\n  for (int e = 0; e < 8; e++) tile[i * 8 + e] = 0;\n  __syncthreads();\n  const unsigned at = __cvta_generic_to_shared(tile + i * 7);\n  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(((unsigned *)out)[i]) : "r"(at));  // WRONG',
      /loads a row of a matrix from an address that is not a multiple of 16/,
    ],
  },
  'tensor cores': {
    'a matrix past the end of its array': [
      '  __shared__ alignas(32) __half a[240];\n  for (int at = i; at < 240; at += 64) a[at] = __half(1.0f);\n  __syncthreads();\n  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> x;\n  nvcuda::wmma::load_matrix_sync(x, a, 16);  // WRONG\n  out[i] = float(x.x[0]);',
      /reads element 24[08] of a \(shared memory\), which has 480 bytes/,
      { before: '#include <mma.h>' },
    ],
    'a warp that is not whole': [
      '  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 8, 8, 4, double, nvcuda::wmma::row_major> a;\n  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 8, 8, 4, double, nvcuda::wmma::col_major> b;\n  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 8, 8, 4, double> c;\n  a.x[0] = b.x[0] = c.x[0] = c.x[1] = i;\n  if (i % 32 >= 16) return;\n  nvcuda::wmma::mma_sync(c, a, b, c);  // WRONG\n  out[i] = c.x[0];',
      /uses tensor cores in a warp that lacks some of its 32 lanes/,
      { before: '#include <mma.h>' },
    ],
    'sums of floats that saturate': [
      '  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> a;\n  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::col_major> b;\n  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;\n  nvcuda::wmma::fill_fragment(a, 1.0f);\n  nvcuda::wmma::fill_fragment(b, 1.0f);\n  nvcuda::wmma::fill_fragment(c, 1.0f);\n  nvcuda::wmma::mma_sync(c, a, b, c, true);  // WRONG\n  out[i] = c.x[0];',
      /asks mma_sync to saturate sums of floats, which is emulated only for integers/,
      { before: '#include <mma.h>' },
    ],
  },
  'a full stack or an instruction that traps': {
    'a function without end': [
      '  out[i] = f(i);',
      /fills its stack of 512 KiB: look for a function that calls itself without end/,
      { before: '__device__ __noinline__ int f(int x) { volatile int own = x; return f(x + 1) + own; }  // WRONG' },
    ],
    'the smallest integer, divided': [
      '  out[i] = (n - 256 + INT_MIN) / (255 - n);  // WRONG',
      /divides an integer by 0, or the smallest integer by -1/,
    ],
  },
};

export const plantedErrors = Object.entries(rows).flatMap(([kind, list]) =>
  Object.entries(list).map(([name, [body, message, rest]]) => ({
    name: `${kind}: ${name}`,
    message,
    ...sourceOf(body, rest),
  })),
);
