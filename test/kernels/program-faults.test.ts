// Faults planted in programs with host code: each is reported, at its line, and right programs run without a report. All are
// in one file, which runs each in a process of its own.
import { beforeAll, expect, it } from 'vitest';
import { workplace } from '../support/cli.ts';

/** By kind: functions, statements of the host, and lines of the report, in which LINE and OTHER are those with "// WRONG" and "// OTHER". */
type Rows = Readonly<Record<string, readonly [functions: string, host: string, report: string]>>;

const fill = '__global__ void k(float *x) { x[threadIdx.x] = 1; }';
const copy = '__global__ void k(float *to, const float *from) { to[threadIdx.x] = from[threadIdx.x]; }';
const list =
  'struct Node { Node *next; int value; };\n__global__ void k(Node *n) { for (; n; n = n->next) n->value++; }';
const tile = '__global__ void k(float *x) {\n  __shared__ float tile[64];\n  const int i = threadIdx.x;\n';

const faults: Rows = {
  'a race in shared memory: no barrier between two lines, and how often it was found': [
    `${tile}  tile[i] = i; // OTHER\n  x[i] = tile[63 - i]; // WRONG\n}`,
    'k<<<1, 64>>>(a);',
    'a __syncthreads() is missing between FILE:OTHER and FILE:LINE\n times: k at FILE:OTHER and FILE:LINE',
  ],
  'a race in shared memory: bytes': [
    `__global__ void k(char *x) {\n  __shared__ char tile[64];\n  const int i = threadIdx.x;\n  tile[i] = i; // OTHER\n  x[i] = tile[i ^ 1]; // WRONG\n}`,
    'k<<<1, 64>>>((char *)a);',
    'a __syncthreads() is missing between FILE:OTHER and FILE:LINE',
  ],
  'a race in shared memory: a counter that is cleared, and counted by the same thread first': [
    `__global__ void k(int *x) {\n  __shared__ int count;\n  if (threadIdx.x == 0) count = 0; // OTHER\n  atomicAdd(&count, 1); // WRONG\n  __syncthreads();\n  x[0] = count;\n}`,
    'k<<<1, 64>>>((int *)a);',
    'a __syncthreads() is missing between FILE:OTHER and FILE:LINE',
  ],
  'a race in global memory: a counter that is cleared, and counted by the same block first': [
    `__global__ void k(int *x) {\n  if (blockIdx.x == 0) x[0] = 0; // OTHER\n  atomicAdd(x, 1); // WRONG\n}`,
    'k<<<2, 1>>>((int *)a);',
    'k: thread 0 of block 1 races',
  ],
  'a race in shared memory: the next round of a loop': [
    `${tile}  for (int round = 0; round < 3; round++) {\n    tile[i] = round; // WRONG\n    __syncthreads();\n    x[i] += tile[63 - i]; // OTHER\n  }\n}`,
    'k<<<1, 64>>>(a);',
    'a __syncthreads() is missing between FILE:OTHER and FILE:LINE, which the next round of a loop runs',
  ],
  'a race in shared memory: two accesses of a line': [
    `${tile}  tile[i] = i;\n  __syncthreads();\n  for (int by = 32; by > 0; by /= 2)\n    if (i < by) tile[i] += tile[i + by]; // WRONG\n}`,
    'k<<<1, 64>>>(a);',
    'a __syncthreads() is missing between the accesses of FILE:LINE, or between the rounds of a loop around it',
  ],
  'a race in shared memory, which ends no launch: the next defect is found too': [
    `${tile}  tile[i / 2] = i;\n  __syncthreads();\n  x[0] = tile[i]; // WRONG\n}`,
    'k<<<1, 64>>>(a); printf("%d ", cudaGetLastError());',
    'k: thread 0 of block 0 races: it writes a[0], which thread 63 wrote with no barrier between at FILE:LINE',
  ],
  'uninitialized shared memory: of the first block in a second cooperative launch': [
    '__global__ void k(float *x, int round) {\n  __shared__ float tile[64];\n  if (round == 0) tile[threadIdx.x] = 1;\n  else if (blockIdx.x == 0) x[threadIdx.x] = tile[threadIdx.x]; // WRONG\n}',
    'for (int round = 0; round < 2; round++) { void *all[] = {&a, &round}; cudaLaunchCooperativeKernel((void *)k, 2, 64, all); }',
    'k: thread 0 of block 0 reads element 0 of tile (shared memory), which no thread has written at FILE:LINE',
  ],
  'a race in global memory: blocks': [
    '__global__ void k(float *x) { x[threadIdx.x] += 1; } // WRONG',
    'k<<<2, 64>>>(a);',
    'k: thread 0 of block 1 races: it reads a[0], which thread 0 of block 0 wrote with nothing that orders blocks at FILE:LINE',
  ],
  'an access out of bounds: a pointer in a structure': [
    'struct View { float *data; int n; };\n__global__ void k(View v) { v.data[threadIdx.x] = v.n; } // WRONG',
    'k<<<1, 65>>>(View{a, 64});',
    'k: thread 64 of block 0 writes a[64], but a has 64 elements at FILE:LINE',
  ],
  'an access out of bounds: a kernel that a pointer names': [
    'static __global__ void k(float *x) { x[threadIdx.x] = 1; } // WRONG\ntemplate <class Kernel> void by(Kernel kernel, float *x) { kernel<<<1, 65>>>(x); }',
    'by(k, a);',
    'kernel: thread 64 of block 0 writes a[64], but a has 64 elements at FILE:LINE',
  ],
  'an access out of bounds: a list': [
    `${list} // WRONG`,
    'Node h[2], *d; cudaMalloc(&d, sizeof h); h[0] = {d + 1, 1}; h[1] = {d + 2, 2}; cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice); k<<<1, 1>>>(d); cudaFree(d);',
    'k: thread 0 of block 0 reads d[2], but d has 2 elements at FILE:LINE',
  ],
  'an access out of bounds: an object of managed memory': [
    'struct Owner { float *data; };\n__global__ void k(Owner *o) { o->data[-1] = 1; } // WRONG',
    'Owner *o; cudaMallocManaged(&o, sizeof *o); o->data = a; k<<<1, 1>>>(o); cudaFree(o);',
    'k: thread 0 of block 0 writes a[-1], but a has 64 elements at FILE:LINE',
  ],
  'an address that is not aligned, with its error': [
    '__global__ void k(float *x) { char *p = (char *)x; *x = *(float *)(p + 1); } // WRONG',
    'k<<<1, 1>>>(a); assert(cudaGetLastError() == cudaErrorMisalignedAddress);',
    'k: thread 0 of block 0 reads 4 bytes at an address that is not a multiple of 4 at FILE:LINE',
  ],
  'a launch on a stream that was destroyed': [
    fill,
    'cudaStream_t s; cudaStreamCreate(&s); cudaStreamDestroy(s);\n  k<<<1, 64, 0, s>>>(a); // WRONG',
    'launches k on a stream that was destroyed at FILE:LINE',
  ],
  'memory of the device after cudaDeviceReset': [
    `${fill} // WRONG`,
    'cudaDeviceReset(); k<<<1, 64>>>(a);',
    'k: thread 0 of block 0 writes a[0], which has been freed at FILE:LINE',
  ],
  'more memory than the GPU has': [
    '',
    'char *x, *y; size_t free[3], total; cudaMemGetInfo(free, &total); cudaMalloc(&x, free[0]); cudaMemGetInfo(free + 1, &total);\n  const int code = cudaMalloc(&y, 1); // WRONG\n  cudaFree(x); cudaMemGetInfo(free + 2, &total); cudaGetLastError(); assert(total - free[0] == 256 && free[1] == 0 && code == 2 && free[2] == free[0]);',
    'warning: allocates 1 byte, but 0 bytes of the emulated GPU are free at FILE:LINE',
  ],
  'a use after free': [
    `${fill} // WRONG`,
    'float *d; cudaMalloc(&d, 256); cudaFree(d); k<<<1, 64>>>(d);',
    'k: thread 0 of block 0 writes d[0], which has been freed at FILE:LINE',
  ],
  'a use after free in host code: managed memory': [
    '',
    'int *m; cudaMallocManaged(&m, 8192); m[2000] = 1; cudaFree(m);\n  if (m[2000] > 7) puts("7"); m[1] = 2; // WRONG',
    'host code reads m (allocated at FILE:BEFORE), which has been freed at FILE:LINE',
  ],
  'a use after free in host code: pinned memory': [
    '',
    'int *p; cudaMallocHost(&p, 4); cudaFreeHost(p);\n  *p = 7; // WRONG',
    'host code writes p (allocated at FILE:BEFORE), which has been freed at FILE:LINE',
  ],
  'a double free': [
    '',
    'float *d; cudaMalloc(&d, 256); cudaFree(d);\n  cudaFree(d); // WRONG',
    'host code frees d (allocated at FILE:BEFORE) again at FILE:LINE',
  ],
  'memory of the device in host code: free': [
    '',
    'float *d; cudaMalloc(&d, 256);\n  free(d); // WRONG',
    'host code frees d (allocated at FILE:BEFORE) by free or delete: use cudaFree or cudaFreeHost at FILE:LINE',
  ],
  'memory of the device in host code: delete of managed memory': [
    '',
    'delete[] a; // WRONG',
    'host code frees a (allocated at FILE:MAIN) by free or delete: use cudaFree or cudaFreeHost at FILE:LINE',
  ],
  'a double free: an address inside': ['', 'cudaFree(a + 1); // WRONG', 'host code frees an address inside of a'],
  'memory of the device in host code: a read': [
    '',
    'if (a[3] > 7) puts("7"); // WRONG',
    'host code reads a (allocated at FILE:MAIN), which only kernels can access: use cudaMemcpy at FILE:LINE',
  ],
  'memory of the device in host code: write': ['', 'a[3] = 1; // WRONG', 'host code writes a (allocated at FILE:MAIN)'],
  'memory of the device in host code: a copy': ['', 'float h[4]; memcpy(h, a, 16); // WRONG', 'host code reads a'],
  'a variable of the device in host code: a read': [
    'extern "C" __device__ int x = 3;',
    'if (x > 7) puts("7"); // WRONG',
    'host code reads x, which only kernels can access: use cudaMemcpyFromSymbol or cudaMemcpyToSymbol at FILE:LINE',
  ],
  'a variable of the device in host code: a write to a member without a value': [
    'struct S { static __device__ float x[8]; };\n__device__ float S::x[8];',
    'S::x[1] = 2; // WRONG',
    '::S::x, which only kernels can access',
  ],
  'a variable of the device in host code: a constant, copied': [
    '__constant__ __align__(16) char k[4096] = "k";',
    'char h[4096]; memcpy(h, k, sizeof k); if (h[7]) puts("7"); // WRONG',
    '::k, which only kernels can access',
  ],
  'a variable of the device in host code: its address in a copy': [
    'static volatile __device__ int count;',
    'int h = 1; cudaMemcpy((void *)&count, &h, 4, cudaMemcpyHostToDevice); // WRONG',
    '::count, a variable of the device, by its address in host code: use cudaMemcpyToSymbol',
  ],
  'memory of the host in a kernel: a variable': [
    'float scale = 2;\n__global__ void k(float *x) { x[threadIdx.x] = scale; } // WRONG',
    'k<<<1, 64>>>(a);',
    '::scale, a variable of the host: declare it __device__ or __constant__ at FILE:LINE',
  ],
  'memory of the host in a kernel: the stack': [
    `${fill} // WRONG`,
    'float h[64]; k<<<1, 64>>>(h);',
    'k: thread 0 of block 0 writes memory of the host',
  ],
  'memory of the host in a kernel: malloc': [
    `${fill} // WRONG`,
    'float *h = (float *)malloc(256); k<<<1, 64>>>(h); free(h);',
    'k: thread 0 of block 0 writes memory of the host',
  ],
  'memory that nobody wrote': [
    `${copy} // WRONG`,
    'float *d; cudaMalloc(&d, 256); k<<<1, 64>>>(a, d); cudaFree(d);',
    'k: thread 0 of block 0 reads d[0], which nobody has written at FILE:LINE',
  ],
  'memory that nobody wrote: the end of a copy': [
    `${copy} // WRONG`,
    'float *d; cudaMalloc(&d, 256); cudaMemcpy(d, a, 128, cudaMemcpyDeviceToDevice); k<<<1, 64>>>(a, d); cudaFree(d);',
    'k: thread 32 of block 0 reads d[32], which nobody has written at FILE:LINE',
  ],
  'memory that nobody wrote: rows that end before their pitch': [
    `${copy} // WRONG`,
    'float *d; size_t p; cudaMallocPitch(&d, &p, 8, 2); cudaMemcpy2D(d, p, a, 8, 8, 2, cudaMemcpyDefault); k<<<1, 64>>>(a, d); cudaFree(d);',
    'k: thread 2 of block 0 reads d[2], which nobody has written at FILE:LINE',
  ],
  'an error that nobody reads': [
    fill,
    'k<<<0, 1>>>(a); exit(0); // WRONG',
    'a launch failed (invalid configuration argument), and the program did not check it: call cudaGetLastError after the launch at FILE:LINE',
  ],
  'a copy past the end': ['', 'cudaMemset(a, 0, 257); // WRONG', 'sets 257 bytes of an allocation of 256 bytes'],
  'a copy in the wrong direction': [
    '',
    'float h[4]; cudaMemcpy(h, a, 16, cudaMemcpyHostToDevice); // WRONG',
    'copies to memory of the host, but the call says',
  ],
  'a copy in the wrong direction, which a GPU does': [
    '',
    'float *d, h; cudaMalloc(&d, 4); cudaMemset(a, 1, 4);\n  cudaMemcpy(d, a, 4, cudaMemcpyHostToDevice); // WRONG\n  cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost); assert(h > 0); cudaFree(d);',
    'copies from memory of the device, but the call says',
  ],
  'a shuffle from a lane that the block does not have, whose value is not used': [
    '__global__ void k(float *x) {\n  float v = 1;\n  for (int by = 4; by > 0; by /= 2) v += __shfl_down_sync(~0u, v, by); // WRONG\n  x[threadIdx.x] = v;\n}',
    'float h; k<<<1, 8>>>(a); cudaMemcpy(&h, a, 4, cudaMemcpyDeviceToHost); assert(h == 8);',
    'warning: k: thread 7 of block 0 reads the value of lane 11, which its block does not have: right only if unused at FILE:LINE',
  ],
  'a block that waits for a later one': [
    '__global__ void k(volatile int *flag, time_t end) {\n  if (blockIdx.x > 0) *flag = 1;\n  else while (*flag == 0 && time(nullptr) < end) {} // WRONG\n}',
    'int *m; cudaMallocManaged(&m, 4); *m = 0; k<<<2, 1>>>(m, time(nullptr) + 5); cudaFree(m);',
    'notice: k: thread 0 of block 0 still runs after 3 s (a block that waits for a later block never ends) at FILE:LINE',
  ],
  'a launch in a kernel': [
    `${fill}\n__global__ void outer(float *x) { k<<<1, 4>>>(x); } // WRONG`,
    'outer<<<1, 1>>>(a);',
    'outer: thread 0 of block 0 launches a kernel',
  ],
};

/** Without a defect, each with what it prints. */
const right: Rows = {
  'written first': [copy, 'float *d; cudaMalloc(&d, 256); k<<<1, 64>>>(d, a); k<<<1, 64>>>(a, d); cudaFree(d);', ''],
  'managed and pinned memory': [
    fill,
    'float *m, *p; cudaMallocManaged(&m, 256); cudaMallocHost(&p, 256); k<<<1, 64>>>(m); k<<<1, 64>>>(p); printf("%g", m[0] + p[63]); cudaFree(m); cudaFreeHost(p);',
    '2',
  ],
  'variables of the device: managed, constant for both, of templates, by address, in functions; pointers to functions':
    [
      `#ifndef __device__\n#define __device__\n#endif\nstruct Number { int a; __host__ __device__ Number(int a = 0) : a(a) { asm volatile("" ::: "memory"); } __device__ bool operator==(int b) const { return a == b; } };
__managed__ __device__ int both = 2; __device__ const float table[4] = {1, 2, 3, 4}; extern __constant__ int one; __constant__ int one = 1; volatile __device__ int count;
template <class T, int n = 1> struct Of { static __device__ T x; T y; };\ntemplate <class T, int n> __device__ T Of<T, n>::x = 5;
__device__ Of<int, (2 + 1) / 2> sized; __device__ decltype(sized) same; __device__ bool is_set(true); __device__ int after __attribute__((aligned(64)));\n__device__ Number number(6); __device__ float twice(float x) { return 2 * x; }\n__device__ float (*operation)(float) = twice;
__global__ void k(float *x) { static int calls; static __device__ int more = 1; x[0] = operation(table[1]) + one + count + Of<int>::x + number.a + calls + more + sized.y + same.y + is_set - 1 + after; both++; }`,
      `int h = 4; void *p; float r; cudaMemcpyToSymbol(count, &h, 4); cudaGetSymbolAddress(&p, count); cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost);
  k<<<1, 1>>>(a); cudaMemcpy(&r, a, 4, cudaMemcpyDeviceToHost); printf("%d %g %d %g", h, r, both, table[h & 3]);`,
      '4 21 3 1',
    ],
  'memory that cudaDeviceReset freed, which destructors free later': [
    '',
    'float *b = a; cudaDeviceReset(); printf("%d", cudaFree(b)); cudaGetLastError(); cudaMalloc(&a, 4);',
    '1',
  ],
  'memory of the host after managed and pinned memory was freed': [
    '',
    'for (int i = 1; i < 64; i++) { char *m, *p; cudaMallocManaged(&m, i * 64); cudaMallocHost(&p, i * 64); cudaFree(m); cudaFreeHost(p); }\n  for (int i = 1; i < 128; i++) { char *h = (char *)calloc(1, i * 64); cudaMemcpy(a, h, 64, cudaMemcpyHostToDevice); }',
    '',
  ],
  'a list': [
    list,
    'Node h[2], *d; cudaMalloc(&d, sizeof h); h[0] = {d + 1, 1}; h[1] = {nullptr, 2}; cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice); k<<<1, 1>>>(d); cudaFree(d);',
    '',
  ],
  'a launch that would change nothing is left out': [
    fill,
    'for (int i = 0; i < 5; i++) k<<<1, 64>>>(a);\n  float h; cudaMemcpy(&h, a, 4, cudaMemcpyDeviceToHost); printf("%g", h);',
    '1, 3 left out',
  ],
  'also if the host copies or clears the same again between, and beside 40 MB that the launch does not use': [
    fill,
    'float h[64] = {}, *d; cudaMalloc(&d, 40 << 20);\n  for (int i = 0; i < 5; i++) { cudaMemset(d, 0, 256); cudaMemcpy(d, h, 256, cudaMemcpyHostToDevice); k<<<1, 64>>>(a); }\n  cudaFree(d);',
    ', 3 left out',
  ],
  'a launch on memory that it found before, which the host cleared again, is not run: its changes are restored': [
    fill,
    'for (int i = 0; i < 5; i++) { cudaMemset(a, 0, 256); k<<<1, 64>>>(a); }\n  float h; cudaMemcpy(&h, a + 63, 4, cudaMemcpyDeviceToHost); printf("%g", h);',
    '1, 3 left out',
  ],
  'also if the host allocates the memory anew each time, whose bytes count as written then': [
    fill,
    'float h, *d;\n  for (int i = 0; i < 5; i++) { cudaMalloc(&d, 256); k<<<1, 64>>>(d); cudaMemcpy(&h, d + 63, 4, cudaMemcpyDeviceToHost); printf("%g", h); cudaFree(d); }',
    '11111, 3 left out',
  ],
  'but is, if the new memory has another role, or the launch writes an address': [
    '__global__ void k(float *p, float *q) { if (p) p[threadIdx.x] = 1; if (q) q[threadIdx.x] += 2; }\n__global__ void self(void **p) { *p = p; }',
    `float h[4], *d, *e; cudaMalloc(&e, 256);
  for (int i = 0; i < 4; i++) { cudaMalloc(&d, 256); cudaMemset(d, 0, 256); cudaMemset(e, 0, 256); k<<<1, 64>>>(i % 2 ? d : nullptr, i == 1 ? e : i == 2 ? nullptr : d); cudaMemcpy(h + i, d, 4, cudaMemcpyDeviceToHost); printf("%g", h[i]); cudaFree(d); }
  for (int i = 0; i < 4; i++) { void **s, *t; cudaMalloc(&s, 8); cudaMemset(s, 0, 8); self<<<1, 1>>>(s); cudaMemcpy(&t, s, 8, cudaMemcpyDeviceToHost); printf("%d", t == s); cudaFree(s); }
  cudaFree(e);`,
    '21031111',
  ],
  'but is, if memory changed that it reaches by a pointer in other memory': [
    `struct Pair { float *from, *to; };\n__global__ void k(Pair *p) { p->to[threadIdx.x] = p->from[threadIdx.x]; }`,
    'Pair h, *d; float *b; cudaMalloc(&d, sizeof h); cudaMalloc(&b, 256); h = {b, a}; cudaMemcpy(d, &h, sizeof h, cudaMemcpyHostToDevice);\n  for (int i = 0; i < 5; i++) { cudaMemset(b, i, 256); k<<<1, 64>>>(d); }\n  char c; cudaMemcpy(&c, a, 1, cudaMemcpyDeviceToHost); printf("%d", c); cudaFree(d); cudaFree(b);',
    '4',
  ],
  'a launch that changes something, after a write of the host, or that prints, is not': [
    `${copy}\n__global__ void add(float *x) { x[threadIdx.x] += 1; }\n__global__ void print() { printf("p"); }`,
    'float *m; cudaMallocManaged(&m, 256);\n  for (int i = 0; i < 5; i++) { m[3] = i; k<<<1, 64>>>(a, m); add<<<1, 64>>>(a); print<<<1, 1>>>(); }\n  float h; cudaMemcpy(&h, a + 3, 4, cudaMemcpyDeviceToHost); printf("%g", h); cudaFree(m);',
    'ppppp5',
  ],
  'many allocations, of which the freed ones take no more memory in the end': [
    '#include <sys/resource.h>',
    'for (int i = 0; i < 400000; i++) { float *d; cudaMalloc(&d, 64); cudaFree(d); }\n  rusage used; getrusage(RUSAGE_SELF, &used); printf("%d", used.ru_maxrss < 50 << 10);',
    '1',
  ],
  'host threads that use their memory and atomics while a kernel runs': [
    '__global__ void k(float *x) { for (int i = 0; i < 200000; i++) x[threadIdx.x] += 1; }',
    'std::atomic<bool> ends{false}; const auto h = std::make_shared<std::vector<int>>(64);\n  std::thread other([&, h] { while (!ends) (*h)[rand() % 64]++; });\n  k<<<1, 1>>>(a); cudaDeviceSynchronize(); ends = true; other.join();',
    '',
  ],
  'samples: blocks without checks compute the same, and what they were given counts as written': [
    `${copy}\nstatic __device__ int total; __constant__ int one; static int runs = 0;
__global__ void big(float *to, float by) { static __device__ int again; const int i = blockIdx.x * 64 + threadIdx.x; for (int n = 0; n < 20; n++) to[i] = n == 0 ? i : to[i] + by; if (threadIdx.x == 0) { atomicAdd(&again, one); atomicAdd(&total, one); } }`,
    `gpt2_emulator::settings.all_checked = 10000;
  const int by = 2 + runs++; int blocks; cudaMemcpyToSymbol(one, &by, 4);
  float *d; cudaMalloc(&d, 4 << 20); big<<<1 << 14, 64>>>(d, 1); cudaMemcpyFromSymbol(&blocks, total, 4);
  std::vector<float> h(1 << 20); cudaMemcpy(h.data(), d, 4 << 20, cudaMemcpyDeviceToHost);
  int wrong = 0; for (int i = 0; i < 1 << 20; i++) wrong += h[i] != i + 19;
  k<<<1, 64>>>(a, d + 777777); printf("%d %d", wrong, blocks); cudaFree(d);`,
    '0 32768, sampled',
  ],
};

const place = workplace();
const cases = [...Object.values(faults), ...Object.values(right)];
const allocation = '  float *a; cudaMalloc(&a, 256); cudaMemset(a, 0, 256);';
const source = `#include <atomic>\n#include <cassert>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <memory>\n#include <thread>\n#include <vector>\n#include <sys/wait.h>\n#include <unistd.h>
${cases.map(([functions, host], at) => `namespace case_${at} {\n${functions}\nvoid run() {\n${allocation}\n  ${host}\n  cudaDeviceSynchronize();\n  cudaFree(a);\n}\n}`).join('\n')}
void (*const cases[])() = {${cases.map((_, at) => `case_${at}::run`).join(', ')}};
int main() {
  for (auto run : cases) {
    if (fork() == 0) { run(); fflush(stdout); exit(cudaGetLastError() ? 1 : 0); }
    int code; wait(&code);
    fprintf(stderr, "exit %d====", WEXITSTATUS(code)); printf("===="); fflush(stdout);
  }
}`;

let stdout: readonly string[], stderr: readonly string[];
beforeAll(() => {
  place.file('faults.cu', source);
  const ran = place.run(['kernel', 'run', 'faults.cu', '--device', 'cpu']);
  [stdout, stderr] = [ran.stdout.split('===='), ran.stderr.split('====')];
  expect(stderr.length, ran.stderr).toBeGreaterThanOrEqual(cases.length);
});

it.each(Object.entries(faults).map(([name, row], at) => [name, row, at] as const))('%s', (_, [, , report], at) => {
  const lines = source.split('\n');
  const first = lines.indexOf(`namespace case_${at} {`);
  const lineOf = (mark: string) => lines.findIndex((line, i) => i > first && line.includes(mark)) + 1;
  const line = lineOf('// WRONG');
  const places = { LINE: line, OTHER: lineOf('// OTHER'), BEFORE: line - 1, MAIN: lineOf(allocation) };
  const wanted = report.replaceAll(/FILE:(\w+)/g, (_, name) => `faults.cu:${places[name as keyof typeof places]}`);
  for (const line of wanted.split('\n')) expect(stderr[at]).toContain(line);
  expect(stderr[at]).toContain(`faults.cu:${line}`);
  expect(stderr[at]).toMatch(report.startsWith('warning') ? /exit 0$/ : /exit [13]$/);
});

const printing = Object.entries(right).map(
  ([name, [, , printed]], at) => [name, printed, cases.length - Object.keys(right).length + at] as const,
);
it.each(printing)('runs without a report: %s', (_, printed, at) => {
  const [text, ...notes] = printed.split(', ') as [string, ...string[]];
  expect(stderr[at]).not.toMatch(/defect|warning|notice/);
  expect(stderr[at]).toMatch(/exit 0$/);
  expect(stdout[at]).toBe(text);
  expect(stderr[at]?.includes('left out')).toBe(notes.some((note) => note.includes('left out')));
  if (notes.includes('3 left out')) expect(stderr[at]).toMatch(/in 5 launches; 3 were left out/);
  // Not by the clock: the same number on every machine.
  if (notes.includes('sampled'))
    expect(stderr[at]).toMatch(/big: 130 of 16384 [\s\S]*\nwhat only unchecked blocks do wrong is not reported/);
});
