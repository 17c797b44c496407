// The loss of a step, the norm of its gradient, and AdamW, by a fixed number of threads. The norm reads 16 bytes at a time, AdamW four
// elements. Sums of threads, warps and blocks are added in a fixed order. ELEMENT is float or __nv_bfloat16, GRADIENT the type of the
// matrices' gradients. The step block holds what changes from step to step; the indices are those of GPT2_STEP in cuda/gpt2.h.
#include <cstdint>
#include <cuda_bf16.h>

#include "gpt2.h"

using element = ELEMENT;
using gradient = GRADIENT;

// WIDTH neighbouring elements, which one instruction reads or writes.
template <class T, int WIDTH>
struct alignas(WIDTH * sizeof(T)) Pack {
  T values[WIDTH];
  __device__ float operator[](int j) const { return static_cast<float>(values[j]); }
};

template <int WIDTH, class T>
__device__ Pack<T, WIDTH> read(const T *from) {
  return *reinterpret_cast<const Pack<T, WIDTH> *>(from);
}

template <int WIDTH, class T>
__device__ void write(T *to, const float (&values)[WIDTH]) {
  Pack<T, WIDTH> pack;
  for (int j = 0; j < WIDTH; j++) pack.values[j] = static_cast<T>(values[j]);
  *reinterpret_cast<Pack<T, WIDTH> *>(to) = pack;
}

__device__ bool is_aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

__device__ double warp_sum(double value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_down_sync(0xffffffffu, value, lanes);
  return value;
}

// Thread 0 gets the sum of the block's values.
__device__ double block_sum(double value) {
  __shared__ double sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = warp_sum(value);
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  return warp > 0 ? 0 : warp_sum(lane < warps ? sums[lane] : 0);
}

// step[LOSS] (=|+=) scale * the sum of losses, by one block.
__global__ void loss_sum(float *step, const float *losses, int N, float scale, int accumulate) {
  double sum = 0;
  for (int n = threadIdx.x; n < N; n += blockDim.x) sum += losses[n];
  sum = block_sum(sum);
  if (threadIdx.x > 0) return;
  step[GPT2_STEP_LOSS] = (accumulate ? step[GPT2_STEP_LOSS] : 0) + static_cast<float>(sum * scale);
}

// The sum of squares of the thread's elements: packs of 16 bytes, then those after the last whole pack. It reads four packs before it uses
// the first: memory is fast only while many bytes are on their way.
template <class T>
__device__ double thread_squares(const T *values, long long count) {
  const long long thread = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const long long threads = gridDim.x * static_cast<long long>(blockDim.x);
  constexpr int width = 16 / sizeof(T), ahead = 4;
  const long long packs = is_aligned(values) ? count / width : 0;
  double sum = 0;
  for (long long p = thread; p < packs; p += ahead * threads) {
    Pack<T, width> x[ahead] = {};
    for (int n = 0; n < ahead; n++) {
      if (p + n * threads < packs) x[n] = read<width>(values + width * (p + n * threads));
    }
    for (int n = 0; n < ahead; n++) {
      // A pack's in fp32, then double: few conversions, and no long sum in fp32.
      float squares = 0;
      for (int j = 0; j < width; j++) squares += x[n][j] * x[n][j];
      sum += squares;
    }
  }
  for (long long i = width * packs + thread; i < count; i += threads) {
    sum += static_cast<float>(values[i]) * static_cast<float>(values[i]);
  }
  return sum;
}

// partial[block] = the sum of squares of the block's elements of matrices and of vectors. With its at most 32 registers all 8 blocks of an
// SM run at the same time.
__global__ void __launch_bounds__(256, 8) square_sums(double *partial, const gradient *matrices, const float *vectors,
                                                      long long matrix_count, long long vector_count) {
  const double sum = block_sum(thread_squares(matrices, matrix_count) + thread_squares(vectors, vector_count));
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// The norm, the factor that clips it, and whether the step changes the weights, by one block.
__global__ void finish_norm(float *step, const double *partial, int count, float targets, float max_norm) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x > 0) return;
  // Loss and gradient are means over all targets; only those that are not -1 count.
  const float factor = targets / step[GPT2_STEP_TARGETS], norm = factor * static_cast<float>(sqrt(sum));
  step[GPT2_STEP_LOSS] *= factor;
  step[GPT2_STEP_NORM] = norm;
  step[GPT2_STEP_CLIP] = factor * (norm > max_norm && max_norm > 0 ? max_norm / norm : 1);
  const bool follows = step[GPT2_STEP_AFTER_UPDATE] == 0 || step[GPT2_STEP_UPDATED] != 0;
  const bool updates = step[GPT2_STEP_LOSS] <= step[GPT2_STEP_LOSS_LIMIT] && norm <= step[GPT2_STEP_NORM_LIMIT] && follows;
  step[GPT2_STEP_UPDATED] = updates ? 1 : 0;
}

// The numbers that an update needs besides the tensors.
struct Numbers {
  float lr, c1, c2, clip, beta1, beta2, eps, weight_decay;
};

// Updates the WIDTH weights from i on.
template <int WIDTH, class G>
__device__ void update(element *weight, float *master, float *m, float *v, const G *gradients, long long i,
                       const Numbers &numbers) {
  const auto [lr, c1, c2, clip, beta1, beta2, eps, weight_decay] = numbers;
  const Pack<G, WIDTH> g = read<WIDTH>(gradients + i);
  const Pack<float, WIDTH> old_m = read<WIDTH>(m + i), old_v = read<WIDTH>(v + i), old = read<WIDTH>(master + i);
  float new_m[WIDTH], new_v[WIDTH], updated[WIDTH];
  for (int j = 0; j < WIDTH; j++) {
    const float x = g[j] * clip;
    new_m[j] = beta1 * old_m[j] + (1 - beta1) * x;
    new_v[j] = beta2 * old_v[j] + (1 - beta2) * x * x;
    updated[j] = old[j] - lr * (new_m[j] / c1 / (sqrtf(new_v[j] / c2) + eps) + weight_decay * old[j]);
  }
  write<WIDTH>(m + i, new_m);
  write<WIDTH>(v + i, new_v);
  write<WIDTH>(master + i, updated);
  // In fp32 the weights are their own masters.
  if (sizeof(element) < sizeof(float)) write<WIDTH>(weight + i, updated);
}

// Loshchilov and Hutter 2019: packs of 4, then the weights after the last whole pack.
template <class G>
__device__ void update_all(element *weight, float *master, float *m, float *v, const G *gradients, const float *step,
                           long long count, int first_scalar, float rate, float beta1, float beta2, float eps,
                           float weight_decay) {
  if (step[GPT2_STEP_UPDATED] == 0) return;
  const long long thread = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const long long threads = gridDim.x * static_cast<long long>(blockDim.x);
  const bool vectors = is_aligned(weight) && is_aligned(master) && is_aligned(m) && is_aligned(v) && is_aligned(gradients);
  const long long packs = vectors ? count / 4 : 0;
  const Numbers numbers{rate * step[GPT2_STEP_LEARNING_RATE], step[first_scalar], step[first_scalar + 1],
                        step[GPT2_STEP_CLIP], beta1, beta2, eps, weight_decay};
  for (long long p = thread; p < packs; p += threads) update<4>(weight, master, m, v, gradients, 4 * p, numbers);
  for (long long i = 4 * packs + thread; i < count; i += threads) update<1>(weight, master, m, v, gradients, i, numbers);
}

__global__ void adamw(element *weight, float *master, float *m, float *v, const float *gradients, const float *step,
                      long long count, int first_scalar, float rate, float beta1, float beta2, float eps,
                      float weight_decay) {
  update_all(weight, master, m, v, gradients, step, count, first_scalar, rate, beta1, beta2, eps, weight_decay);
}

// In bf16 the matrices' gradients are bf16, unless they are summed over several micro-batches; those of vectors are fp32.
__global__ void adamw_bf16_gradient(element *weight, float *master, float *m, float *v, const __nv_bfloat16 *gradients,
                                    const float *step, long long count, int first_scalar, float rate, float beta1,
                                    float beta2, float eps, float weight_decay) {
  update_all(weight, master, m, v, gradients, step, count, first_scalar, rate, beta1, beta2, eps, weight_decay);
}
