// Programs of `gpt2 kernel run`, each after a line "//// NAME"; the lines before the first are in all. "//> " begins a line of the
// output, "//! " a text on standard error in which LINE is the line with "// WRONG", "//= " the exit code.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
template <class T> void show(const char *name, T *device, int n) {
  std::vector<T> host(n);
  cudaMemcpy(host.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost);
  printf("%s:", name);
  for (const T &value : host) printf(" %g", double(value));
  printf("\n");
}
//// launches templates, namespaces, functors, lambdas and function pointers, with arguments evaluated once
//> template: 4 4 4 4
//> next 1
//> functor: 2 2 2 2
//> lambda: 2 12 22 32
//> pointers: 6 23 43 63
//> on the same memory: 0 0 0 0
//> null: 7
//> literal 0: 8
namespace outer { template <class T, int N> __global__ void fill(T *out, T value) { out[threadIdx.x] = value + N; } }
template <class F> __global__ void apply(float *out, F f) { out[threadIdx.x] = f(threadIdx.x, out[threadIdx.x]); }
extern "C" __global__ void plain(float *out) { out[threadIdx.x] *= 2; }
__global__ void other(float *out) { out[threadIdx.x] -= 1; }
__global__ void optional(float *out, const float *in, dim3 size) { out[0] = in ? in[0] : size.y; }
template <class T> __device__ __noinline__ T half_of(T x) { return x / 2; }
struct Halve { __device__ float operator()(int i, float x) const { return half_of(x); } };
struct Runner { float by; void run(float *out) { apply<<<1, 4>>>(out, [by = by] __device__(int i, float x) { return x + by * i; }); } };
int main(int argc, char **argv) {
  float *a; cudaMalloc(&a, 16);
  int next = 0;
  dim3 gridDim(1);
  outer::fill<float, 3><<<gridDim, dim3(4)>>>(a, float(++next));
  show("template", a, 4); printf("next %d\n", next);
  apply<<<1, 4>>>(a, Halve()); show("functor", a, 4);
  Runner{10}.run(a); show("lambda", a, 4);
  void (*kernels[])(float *) = {plain, other};
  for (auto kernel : kernels) kernel<<<1, 4, 0, 0>>>(a);
  (*kernels[0])<<<1, 1>>>(a); show("pointers", a, 4);
  auto apply = kernels; // As the template above.
  for (int i = 0; i < 7; i++) { cudaMemset(a, 0, 16); auto other = apply[i % 2]; other<<<1, 4>>>(a); }
  show("on the same memory", a, 4);
  optional<<<1, 1>>>(a, NULL, dim3(1, 7)); show("null", a, 1);
  optional<<<1, 1>>>(a, 0, dim3(1, 8)); show("literal 0", a, 1);
  cudaFree(a);
}
//// launches by comparisons in a template's argument, with members by pointers beside a 0, and pointers to rows
//> 7 12 13
#if __CUDACC_VER_MAJOR__ < 12
#error an old nvcc
#endif
template <bool IS_LARGE, int N> __global__ void pick(int *out, const int *in) { *out = (IS_LARGE ? N : -N) + (in ? *in : 0); }
__global__ void rows(int *out, int (*in)[2]) {
  __shared__ int tile[4][2]; __shared__ int (*pointer)[2];
  if (threadIdx.x == 0) pointer = tile;
  tile[threadIdx.x][1] = in[threadIdx.x][0];
  __syncthreads();
  *out = pointer[3][1];
}
int main() {
  struct { int *out, *in; } memory, *m = &memory; cudaMallocManaged(&m->out, 4); cudaMallocManaged(&m->in, 32);
  pick<(sizeof(int) > 2), 7><<<1, 1>>>(m->out + std::max<int>(1 > 2, 0), 0); cudaDeviceSynchronize(); printf("%d", *m->out);
  m->in[0] = 5; m->in[6] = 13; pick<(1 < 2), 7><<<1, 1>>>(m->out, m->in); cudaDeviceSynchronize(); printf(" %d", *m->out);
  rows<<<1, 4>>>(m->out, (int (*)[2])m->in); cudaDeviceSynchronize(); printf(" %d\n", *m->out);
  cudaFree(m->out); cudaFree(m->in);
}
//// takes headers of LeetGPU and for one GPU, a variable named as in std, and a typed pointer to pinned memory
//> 3 0
#include "solve.h"
#include <sm_61_intrinsics.h>
#include <cmath>
using namespace std;
const float beta = 3;
int main() {
  float *pinned, *device; cudaHostAlloc(&pinned, 4, cudaHostAllocMapped); *pinned = beta;
  printf("%g", *pinned); printf(" %d\n", cudaHostGetDevicePointer(&device, pinned, 0)); cudaFreeHost(pinned);
}
//// takes every way to declare shared memory
//> 116 110
__shared__ float outside[4];
__device__ void put(int i) { outside[i] = i; }
template <class T> __global__ void sums(T *out) {
  T __shared__ before[4];
  extern T __shared__ dynamic[];
  __shared__ struct { int x; T y[2]; } pair;
  const int i = threadIdx.x;
  before[i] = i; dynamic[i] = 10; put(i);
  if (i == 0) pair.y[1] = 100;
  __syncthreads();
  out[i] = before[3 - i] + dynamic[3 - i] + outside[3 - i] + pair.y[1];
}
int main(int argc, char **argv) {
  float *a; cudaMallocManaged(&a, 16);
  sums<float><<<1, 4, 16>>>(a);
  cudaDeviceSynchronize();
  printf("%g %g\n", a[0], a[3]);
  cudaFree(a);
}
//// has the runtime API
//> symbols: 6 7 8
//> counter 8
//> launch 0 0 0
//> launched: 28 15 8
//> pitch 512 7
//> pinned 8
//> peers 0 0 101 101 101 101 15
//> events 0 1
//> model 9.0 8 2 1024 16
__constant__ float weights[3]; __device__ int counter; __device__ int *list;
__global__ void use(float *out) {
  out[threadIdx.x] = weights[threadIdx.x] + counter;
  __syncthreads();
  atomicAdd(&counter, 1);
}
__global__ void add(float *out, int n, float by) { if (threadIdx.x < n) out[threadIdx.x] += by; }
template <class T> __global__ void twice(T *x) { *x *= 2; }
int main(int argc, char **argv) {
  const float host[] = {1, 2, 3}; int count = 5;
  cudaMemcpyToSymbol(weights, host, sizeof host); cudaMemcpyToSymbol(counter, &count, sizeof count);
  float *a; cudaMalloc((void **)&a, 12); cudaMemsetAsync(a, 0, 12, 0);
  use<<<1, 3>>>(a); show("symbols", a, 3);
  cudaMemcpyFromSymbol(&count, counter, sizeof count); printf("counter %d\n", count);
  float by = 4; int n = 2; void *args[] = {&a, &n, &by};
  printf("launch %d", cudaLaunchKernel((void *)add, dim3(1), dim3(3), args, 0, nullptr));
  printf(" %d", cudaLaunchKernel(add, 1, 3, args));
  void *one[] = {&a}; printf(" %d\n", cudaLaunchKernel((const void *)twice<float>, 1, 1, one)); show("launched", a, 3);
  char *rows; size_t pitch; cudaMallocPitch(&rows, &pitch, 3, 2); cudaMemset2D(rows, pitch, 7, 3, 2);
  char square[6]; cudaMemcpy2D(square, 3, rows, pitch, 3, 2, cudaMemcpyDeviceToHost); printf("pitch %zu %d\n", pitch, square[5]);
  float *pinned; cudaHostAlloc(&pinned, 12, cudaHostAllocDefault); cudaMemcpyAsync(pinned, a, 12, cudaMemcpyDefault, 0);
  printf("pinned %g\n", pinned[2]);
  int can = 1; printf("peers %d", cudaDeviceCanAccessPeer(&can, 0, 0)); printf(" %d %d", can, cudaDeviceCanAccessPeer(&can, 0, 1));
  printf(" %d %d", cudaDeviceEnablePeerAccess(1, 0), cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 1));
  printf(" %d", cudaMemcpyPeerAsync(pinned, 1, a, 0, 4, 0)); cudaMemcpyPeer(a, 0, a + 1, 0, 4); cudaMemcpy(pinned, a, 4, cudaMemcpyDefault); printf(" %g\n", *pinned);
  cudaStream_t stream; cudaStreamCreate(&stream); cudaEvent_t start, stop; cudaEventCreate(&start); cudaEventCreate(&stop);
  cudaEventRecord(start, stream); add<<<1, 3, 0, stream>>>(a, 3, 1); cudaEventRecord(stop, stream); cudaEventSynchronize(stop);
  float ms = 0; const int timed = cudaEventElapsedTime(&ms, start, stop);
  printf("events %d %d\n", timed, ms > 0);
  cudaDeviceProp prop; cudaGetDeviceProperties(&prop, 0); int sms; cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  int blocks, size, grid; cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 512, 100000);
  cudaOccupancyMaxPotentialBlockSize(&grid, &size, add); printf("model %d.%d %d %d %d %d\n", prop.major, prop.minor, sms, blocks, size, grid);
  cudaFree(a); cudaFree(rows); cudaFreeHost(pinned); cudaStreamDestroy(stream); cudaEventDestroy(start); cudaEventDestroy(stop);
}
//// runs a barrier of the grid in a cooperative launch
//> cudaErrorCooperativeLaunchTooLarge
//> reversed: 7 6 5 4 3 2 1 0
#include <cassert>
#include <cooperative_groups.h>
// Not that of cooperative_groups/reduce.h, although tiles are of its namespace.
__device__ int reduce(cooperative_groups::thread_group tile, int *x, int value) { return *x + value * tile.size(); }
__global__ void reverse(int *out, int *in) {
  int one = 1; const auto tile = cooperative_groups::tiled_partition(cooperative_groups::this_thread_block(), 4); assert(reduce(tile, &one, 2) == 9);
  const auto grid = cooperative_groups::this_grid();
  in[grid.thread_rank()] = grid.thread_rank();
  grid.sync();
  out[grid.thread_rank()] = in[grid.size() - 1 - grid.thread_rank()];
}
int main(int argc, char **argv) {
  int *a, *b; cudaMalloc(&a, 32); cudaMalloc(&b, 32); void *args[] = {&a, &b};
  printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void *)reverse, 1000, 1024, args)));
  cudaLaunchCooperativeKernel((void *)reverse, 2, 4, args); show("reversed", a, 8); cudaFree(a); cudaFree(b);
}
//// returns CUDA's errors, sticky where a GPU's are
//> invalid configuration argument, 0
//> 1 1 101 101 -
//> cudaErrorAssert
//> 710 710 device-side assert triggered
//! check: thread 0 of block 0 fails the assertion *x == 1 at LINE
//= 3
#include <cassert>
__global__ void check(int *x) { assert(*x == 1); // WRONG
}
int main(int argc, char **argv) {
  int *a; cudaMalloc(&a, 4); cudaMemset(a, 0, 4);
  check<<<1, 2048>>>(a); printf("%s, ", cudaGetErrorString(cudaGetLastError())); printf("%d\n", cudaGetLastError());
  check<<<1, 1, 50000>>>(a); printf("%d ", cudaPeekAtLastError());
  cudaFuncSetAttribute(check, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000); printf("%d ", cudaGetLastError()); printf("%d ", cudaSetDevice(1));
  cudaDeviceProp kept; kept.name[0] = '-'; kept.name[1] = 0; printf("%d %s\n", cudaGetDeviceProperties(&kept, 1), kept.name);
  check<<<1, 1>>>(a); printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  printf("%d %d %s\n", cudaGetLastError(), cudaFree(a), cudaGetErrorString(cudaDeviceSynchronize()));
}
//// multiplies by cuBLAS
//> worst 0
//> gemv: 432
//> again: 432 432 432 432 864 1296
//> dot 432 nrm2 10
//> axpy: 10 16 108
//> Xt 432 for the host
//> 1 3
//> CUBLAS_STATUS_EXECUTION_FAILED
//! cuBLAS's operand A has 18204 bytes by its sizes
//= 3
#include <cublasXt.h>
#include <cuda_fp16.h>
int main(int argc, char **argv) {
  cublasHandle_t blas; cublasCreate(&blas); cublasSetMathMode(blas, CUBLAS_TF32_TENSOR_OP_MATH);
  const int m = 37, n = 35, k = 41; const float alpha = 2, beta = -1; double worst = 0;
  auto at = [](int i, int j) { return float((i * 7 + j * 5) % 11 - 5); };
  std::vector<float> a(2 * m * k), b(2 * k * n), c(2 * m * n); std::vector<__half> ha(2 * m * k), hb(2 * k * n);
  float *da, *db, *dc; __half *dha, *dhb;
  cudaMalloc(&da, a.size() * 4); cudaMalloc(&db, b.size() * 4); cudaMalloc(&dc, c.size() * 4); cudaMalloc(&dha, a.size() * 2); cudaMalloc(&dhb, b.size() * 2);
  for (int form = 0; form < 8; form++) {
    const bool at_ = form & 1, bt = form & 2, is_half = form & 4; const int lda = at_ ? k : m, ldb = bt ? n : k;
    for (int s = 0; s < 2; s++) {
      for (int i = 0; i < m; i++) for (int l = 0; l < k; l++) a[s * m * k + (at_ ? l + i * lda : i + l * lda)] = at(i + s, l);
      for (int l = 0; l < k; l++) for (int j = 0; j < n; j++) b[s * k * n + (bt ? j + l * ldb : l + j * ldb)] = at(l, j + s);
    }
    for (size_t i = 0; i < a.size(); i++) ha[i] = a[i];
    for (size_t i = 0; i < b.size(); i++) hb[i] = b[i];
    for (float &x : c) x = 3;
    cudaMemcpy(da, a.data(), a.size() * 4, cudaMemcpyHostToDevice); cudaMemcpy(db, b.data(), b.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dha, ha.data(), a.size() * 2, cudaMemcpyHostToDevice); cudaMemcpy(dhb, hb.data(), b.size() * 2, cudaMemcpyHostToDevice);
    cudaMemcpy(dc, c.data(), c.size() * 4, cudaMemcpyHostToDevice);
    const auto ta = at_ ? CUBLAS_OP_T : CUBLAS_OP_N, tb = bt ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (is_half) cublasGemmStridedBatchedEx(blas, ta, tb, m, n, k, &alpha, dha, CUDA_R_16F, lda, m * k, dhb, CUDA_R_16F, ldb, k * n, &beta, dc, CUDA_R_32F, m, m * n, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    else cublasSgemmStridedBatched(blas, ta, tb, m, n, k, &alpha, da, lda, m * k, db, ldb, k * n, &beta, dc, m, m * n, 2);
    cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost);
    for (int s = 0; s < 2; s++) for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
      double sum = -3; for (int l = 0; l < k; l++) sum += 2.0 * at(i + s, l) * at(l, j + s);
      worst = std::max(worst, std::abs(sum - c[s * m * n + i + j * m]));
    }
  }
  printf("worst %g\n", worst);
  // A row of 2, 3, 4 by columns, and the vectors.
  const float one = 1, zero = 0; float dot; float xs[] = {2, 3, 4}, ys[] = {1, 10, 100};
  cudaMemcpy(da, xs, 12, cudaMemcpyHostToDevice); cudaMemcpy(db, ys, 12, cudaMemcpyHostToDevice);
  cublasSgemv(blas, CUBLAS_OP_N, 1, 3, &one, da, 1, db, 1, &zero, dc, 1); show("gemv", dc, 1);
  // Also where products are left out that ran before on the same memory.
  printf("again:");
  for (int i = 0; i < 6; i++) { if (i < 4) cudaMemset(dc, 0, 4); cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 3, &one, da, 3, db, 3, &one, dc, 1); cudaMemcpy(&dot, dc, 4, cudaMemcpyDeviceToHost); printf(" %g", dot); }
  printf("\n");
  cublasSdot(blas, 3, da, 1, db, 1, &dot); printf("dot %g", dot); cublasSnrm2(blas, 1, db + 1, 1, &dot); printf(" nrm2 %g\n", dot);
  cublasSaxpy(blas, 3, &alpha, da, 1, db, 1); cublasSscal(blas, 1, &alpha, db, 1); show("axpy", db, 3);
  cublasXtHandle_t xt; cublasXtCreate(&xt); cublasXtSgemm(xt, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 3, &one, xs, 3, ys, 3, &zero, &dot, 1);
  printf("Xt %g for the host\n", dot);
  const float four[4] = {1, 2, 3, 4}; float back[4] = {}; cublasSetMatrix(1, 2, 4, four, 2, da, 1); cublasGetVector(2, 4, da, 1, back, 3); printf("%g %g\n", back[0], back[3]);
  printf("%s\n", cublasGetStatusName(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, 3 * k, &one, da, m, db, 3 * k, &zero, dc, m)));
}
//// has Philox's numbers of a GPU, and cuRAND's distributions
//> 6627e8d5 e169c58d bc57ac4c 9b00dbd8 1
//> 1
//> 1
//> 0 105 105 1
//> 1 1 1 1 1
//! notice: on a CPU every generator of cuRAND is Philox, so its numbers differ from a GPU's
#include <curand.h>
#include <curand_kernel.h>
__global__ void draw(unsigned *bits, float *mean) {
  curandStatePhilox4_32_10_t state; curand_init(0, 0, 0, &state);
  for (int i = 0; i < 4; i++) bits[i] = curand(&state);
  curand_init(1234, 5, 6, &state); float sum = 0, squares = 0;
  for (int i = 0; i < 10000; i++) { const float x = curand_normal(&state); sum += x; squares += x * x; }
  mean[0] = sum / 10000; mean[1] = squares / 10000;
}
__global__ void four(int *is) {
  curandStatePhilox4_32_10_t a, b; curand_init(3, 0, 0, &a); b = a; float4 x = curand_uniform4(&a), y; y.x = curand_uniform(&b), y.y = curand_uniform(&b), y.z = curand_uniform(&b), y.w = curand_uniform(&b);
  is[0] = x.x == y.x && x.y == y.y && x.z == y.z && x.w == y.w; x = curand_normal4(&a); is[1] = x.x == curand_normal(&b) && x.y == curand_normal(&b); is[2] = x.z == curand_normal(&b) && x.w == curand_normal(&b);
  const uint4 bits = curand4(&a); curand(&b); curand(&b); curand(&b); is[3] = bits.w == curand(&b);
  double sum = 0, squares = 0; for (int i = 0; i < 10000; i++) { const double each = curand_normal_double(&a); sum += each; squares += each * each; } is[4] = fabs(sum) < 300 && fabs(squares - 10000) < 500;
}
int main(int argc, char **argv) {
  unsigned *bits, host[4]; float *mean, means[2]; cudaMalloc(&bits, 16); cudaMalloc(&mean, 40000);
  draw<<<1, 1>>>(bits, mean); cudaMemcpy(host, bits, 16, cudaMemcpyDeviceToHost); cudaMemcpy(means, mean, 8, cudaMemcpyDeviceToHost);
  printf("%08x %08x %08x %08x %d\n", host[0], host[1], host[2], host[3], std::abs(means[0]) < 0.03f && std::abs(means[1] - 1) < 0.05f);
  curandGenerator_t made; curandCreateGenerator(&made, CURAND_RNG_PSEUDO_DEFAULT); curandSetPseudoRandomGeneratorSeed(made, 7);
  curandGenerateUniform(made, mean, 10000); std::vector<float> all(10000); cudaMemcpy(all.data(), mean, 40000, cudaMemcpyDeviceToHost);
  double sum = 0; for (float x : all) sum += x; printf("%d\n", std::abs(sum / 10000 - 0.5) < 0.01);
  double *wide = (double *)mean, first[9] = {}; curandGenerateUniformDouble(made, wide, 9); cudaMemcpy(first, wide, 72, cudaMemcpyDeviceToHost); printf("%d\n", first[8] > 0 && first[8] <= 1);
  printf("%d %d %d", curandGenerateNormalDouble(made, wide, 5000, 8, 2), curandGenerateNormalDouble(made, wide, 9, 0, 1), curandGenerateNormal(made, mean, 9, 0, 1));
  std::vector<double> normal(5000); cudaMemcpy(normal.data(), wide, 40000, cudaMemcpyDeviceToHost); double squares = sum = 0;
  for (double x : normal) sum += x, squares += (x - 8) * (x - 8); printf(" %d\n", std::abs(sum / 5000 - 8) < 0.1 && std::abs(squares / 5000 - 4) < 0.4);
  int *is; cudaMallocManaged(&is, 20); four<<<1, 1>>>(is); cudaDeviceSynchronize(); printf("%d %d %d %d %d\n", is[0], is[1], is[2], is[3], is[4]); cudaFree(is);
  curandDestroyGenerator(made); cudaFree(bits); cudaFree(mean);
}
//// threads of OpenMP in host code
#include <omp.h>
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
int main() {
  int h[64], sum = 0, threads = 0, *d;
#pragma omp parallel num_threads(3)
#pragma omp single
  threads = omp_get_num_threads();
#pragma omp parallel for num_threads(3)
  for (int i = 0; i < 64; i++) h[i] = i;
  cudaMalloc(&d, sizeof h);
  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
  twice<<<1, 64>>>(d);
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  cudaFree(d);
#pragma omp parallel for num_threads(3) reduction(+ : sum)
  for (int i = 0; i < 64; i++) sum += h[i];
  printf("%d threads, %d\n", threads, sum);
}
//> 3 threads, 4032
//// asks glibc for huge pages of host arrays
//> 1
int main() {
  const char *set = getenv("GLIBC_TUNABLES");
  printf("%d\n", set && strstr(set, "glibc.malloc.hugetlb=1"));
}
//// leaves names of functions in strings
//> wall-clock: malloc, free "puts" and __real_memcpy
__device__ char text[] = "malloc, free \"puts\"";
int main() {
  char of_device[sizeof text];
  cudaMemcpyFromSymbol(of_device, text, sizeof text);
  printf("wall-clock: %s and __real_memcpy\n", of_device);
}
