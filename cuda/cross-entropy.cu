// Softmax and cross-entropy of a row of logits by one block: one sweep keeps a running maximum and sum (Milakov and
// Gimelshein 2018), a second, whose reads come from L2, writes the gradient. In place, so device memory sees each logit
// read once and written once.
#include "common/device.cuh"
#include "runtime/ops.h"

namespace gpt2 {

namespace {

constexpr int threads = 512;
constexpr float log2e = 1.4426950408889634f;

// A maximum and the sum of exp(x - maximum) over what was seen.
struct Running {
  float maximum, sum;
};

__device__ __forceinline__ Running merge(Running a, Running b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  if (maximum == -INFINITY) return {maximum, 0.0f};
  return {maximum, a.sum * exp2f((a.maximum - maximum) * log2e) + b.sum * exp2f((b.maximum - maximum) * log2e)};
}

__device__ __forceinline__ Running merge_block(Running own) {
  __shared__ Running partial[threads / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    own = merge(own, {__shfl_xor_sync(0xffffffffu, own.maximum, offset), __shfl_xor_sync(0xffffffffu, own.sum, offset)});
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = own;
  __syncthreads();
  Running all = partial[0];
  for (int warp = 1; warp < threads / 32; warp++) all = merge(all, partial[warp]);
  return all;
}

template <class T, int V>
__global__ void __launch_bounds__(threads) cross_entropy_kernel(float *losses, T *dlogits, const T *logits,
                                                                const int32_t *targets, int vocabulary, int padded,
                                                                float dloss) {
  const int64_t row = blockIdx.x;
  const T *x = logits + row * padded;
  const int packs = padded / V;
  Running own{-INFINITY, 0.0f};
  for (int i = threadIdx.x; i < packs; i += threads) {
    float values[V];
    load(values, x + i * V);
    float maximum = own.maximum;
#pragma unroll
    for (int j = 0; j < V; j++) {
      if (i * V + j >= vocabulary) values[j] = -INFINITY;
      maximum = fmaxf(maximum, values[j]);
    }
    if (maximum == -INFINITY) continue;
    float sum = own.sum * exp2f((own.maximum - maximum) * log2e);
#pragma unroll
    for (int j = 0; j < V; j++) sum += exp2f((values[j] - maximum) * log2e);
    own = {maximum, sum};
  }
  const Running all = merge_block(own);
  const int target = targets[row];
  const bool exists = target >= 0 && target < vocabulary;
  // The target's logit is read before any thread may overwrite it.
  const float wanted = exists ? to_float(x[target]) : NAN;
  if (threadIdx.x == 0) losses[row] = logf(all.sum) + all.maximum - wanted;
  if (!dlogits) return;
  __syncthreads();
  const float scale = exists ? dloss / all.sum : NAN;
  for (int i = threadIdx.x; i < packs; i += threads) {
    float values[V];
    load(values, x + i * V);
#pragma unroll
    for (int j = 0; j < V; j++) {
      const int column = i * V + j;
      float gradient = exp2f((values[j] - all.maximum) * log2e) * scale;
      if (column == target) gradient -= dloss;
      values[j] = column < vocabulary ? gradient : 0.0f;
    }
    store(dlogits + row * padded + i * V, values);
  }
}

constexpr int sum_threads = 1024;

__global__ void __launch_bounds__(sum_threads) loss_sum_kernel(float *step, const float *losses, int count, float scale,
                                                               bool accumulate) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += sum_threads) sum += losses[i];
  sum = block_sum<sum_threads>(sum);
  if (threadIdx.x == 0) {
    step[GPT2_STEP_LOSS] = static_cast<float>((accumulate ? step[GPT2_STEP_LOSS] : 0.0) + sum * scale);
  }
}

}  // namespace

int ops::cross_entropy(gpt2_context &context, float *losses, void *dlogits, const void *logits, const int32_t *targets,
                       int N, int V, int Vp, float dloss) {
  CudaContext &own = cuda(context);
  with_element_type(own, [&](auto element) {
    using T = decltype(element);
    auto *gradient = static_cast<T *>(dlogits);
    auto *values = static_cast<const T *>(logits);
    if (Vp % vector_size<T> == 0 && on_16_bytes(dlogits, logits)) {
      cross_entropy_kernel<T, vector_size<T>>
          <<<N, threads, 0, own.stream>>>(losses, gradient, values, targets, V, Vp, dloss);
    } else {
      cross_entropy_kernel<T, 1><<<N, threads, 0, own.stream>>>(losses, gradient, values, targets, V, Vp, dloss);
    }
  });
  return GPT2_LAUNCHED(context, "gpt2_cross_entropy");
}

int ops::loss_sum(gpt2_context &context, float *step, const float *losses, int N, float scale, bool accumulate) {
  CudaContext &own = cuda(context);
  loss_sum_kernel<<<1, sum_threads, 0, own.stream>>>(step, losses, N, scale, accumulate);
  return GPT2_LAUNCHED(context, "gpt2_loss_sum");
}

}  // namespace gpt2
