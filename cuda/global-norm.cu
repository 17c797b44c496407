// The norm of the gradients and the clip factor. The grid is fixed, so the result depends only on the gradients: a
// thread's squares (about 500 at 124M parameters, 6,000 at 1.5B) are summed in fp32, the threads' sums in double.
#include "common/device.cuh"
#include "common/end-of-step.h"
#include "ranks/communicator.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;
constexpr int blocks = 1024;

// partial[block] = the block's sum of squares of values [count]. With SUMS, values is [parts,count]: the rows are added
// in fp32, in order, and the sums replace the first row. The norm is of the stored values: each sum is rounded before
// it is squared. With SUMS, count is a multiple of the elements in 16 bytes.
template <bool SUMS, class T>
__global__ void __launch_bounds__(threads) square_sum_kernel(double *partial, T *values, int64_t count, int parts) {
  constexpr int V = vector_size<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  constexpr int64_t stride = static_cast<int64_t>(blocks) * threads;
  const int64_t packs = count / V;
  float sum = 0;
  for (int64_t i = thread; i < packs; i += stride) {
    float total[V], x[V];
    load(total, values + i * V);
    for (int part = 1; SUMS && part < parts; part++) {
      load(x, values + part * count + i * V);
#pragma unroll
      for (int j = 0; j < V; j++) total[j] += x[j];
    }
    if constexpr (SUMS) store(values + i * V, total);
#pragma unroll
    for (int j = 0; j < V; j++) {
      float rounded = total[j];
      if constexpr (SUMS) rounded = to_float(from_float<T>(rounded));
      sum += rounded * rounded;
    }
  }
  for (int64_t i = packs * V + thread; !SUMS && i < count; i += stride) {
    sum += to_float(values[i]) * to_float(values[i]);
  }
  const double squares = block_sum<threads>(static_cast<double>(sum));
  if (threadIdx.x == 0) partial[blockIdx.x] = squares;
}

__global__ void __launch_bounds__(threads)
    norm_kernel(float *step, const double *partial, int count, float targets, float max_norm) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += threads) sum += partial[i];
  const double norm = sqrt(block_sum<threads>(sum));
  if (threadIdx.x != 0) return;
  end_of_step(step, norm, targets, max_norm);
}

__global__ void __launch_bounds__(threads) sum_kernel(double *total, const double *partial, int count) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += threads) sum += partial[i];
  sum = block_sum<threads>(sum);
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace

int64_t ops::global_norm_scratch(const Context &, int64_t, int64_t) {
  Scratch scratch;
  scratch.take<double>(2 * blocks);
  return scratch.bytes();
}

void ops::global_norm(Context &gpu, float *step, void *matrices, const float *vectors, gpt2_communicator *communicator,
                      int parts, int64_t matrix_count, int64_t vector_count, float targets, float max_norm) {
  double *partial = Scratch(gpu.workspace).take<double>(2 * blocks);
  with_gradient_type(gpu, [&](auto element) {
    auto *values = static_cast<decltype(element) *>(matrices);
    with_flag(parts > 1, [&](auto sums) {
      square_sum_kernel<sums><<<blocks, threads, 0, gpu.stream>>>(partial, values, matrix_count, parts);
    });
  });
  square_sum_kernel<false><<<blocks, threads, 0, gpu.stream>>>(partial + blocks, const_cast<float *>(vectors),
                                                              vector_count, 1);
  double *squares = partial;
  int count = 2 * blocks;
  if (communicator) {
    // Only the matrices are summed over ranks. Their sum goes directly before the vectors' partial sums.
    squares = partial + blocks - 1;
    count = 1 + blocks;
    sum_kernel<<<1, threads, 0, gpu.stream>>>(squares, partial, blocks);
    sum_over_ranks(gpu, squares, *communicator);
  }
  norm_kernel<<<1, threads, 0, gpu.stream>>>(step, squares, count, targets, max_norm);
}

}  // namespace gpt2
