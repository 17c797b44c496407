// Softmax and cross-entropy, a block per row of logits: one sweep keeps a running maximum and sum (Milakov and
// Gimelshein 2018), a second writes the gradient. Where the row fits shared memory (100 KB in bf16 at GPT-2's
// vocabulary, two rows on an H100's SM), it stays there between the sweeps, so device memory is read and written once
// per logit. Otherwise the second sweep reads the row from device memory again, because the rows of all running blocks
// together are as large as L2.
#include "cross-entropy.cuh"

#include "common/device.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 1024;

// The maximum of the logits x read so far, and the sum of exp(x - maximum).
struct Running {
  float maximum, sum;
};

__device__ __forceinline__ Running merge(Running a, Running b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  if (maximum == -INFINITY) return {maximum, 0.0f};
  return {maximum, a.sum * exp2f((a.maximum - maximum) * log2e) + b.sum * exp2f((b.maximum - maximum) * log2e)};
}

__device__ __forceinline__ Running merge_block(Running running) {
  __shared__ Running partial[threads / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    running = merge(running, {__shfl_xor_sync(0xffffffffu, running.maximum, offset),
                              __shfl_xor_sync(0xffffffffu, running.sum, offset)});
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = running;
  __syncthreads();
  Running all = partial[0];
  for (int warp = 1; warp < threads / 32; warp++) all = merge(all, partial[warp]);
  return all;
}

// Updates the running maximum and sum with V more logits.
template <int V>
__device__ __forceinline__ void take(Running &running, const float (&values)[V]) {
  float maximum = running.maximum;
#pragma unroll
  for (int j = 0; j < V; j++) maximum = fmaxf(maximum, values[j]);
  // Until the first finite logit the maximum is -inf, which would give exp(-inf + inf).
  const float base = maximum == -INFINITY ? 0.0f : maximum * log2e;
  float sum = running.sum * exp2_approximate(fmaf(running.maximum, log2e, -base));
#pragma unroll
  for (int j = 0; j < V; j++) sum += exp2_approximate(fmaf(values[j], log2e, -base));
  running = {maximum, sum};
}

template <bool CAPPED>
__device__ __forceinline__ Softcapped limited(float logit, float cap) {
  if constexpr (CAPPED) return softcapped(logit, cap);
  return {logit, 1.0f};
}

template <class T, int V, bool KEEPS, bool CAPPED>
__global__ void __launch_bounds__(threads)
    cross_entropy_kernel(float *losses, T *dlogits, const T *logits, const int32_t *targets, int vocabulary, int padded,
                         float dloss, float cap) {
  const int64_t row = blockIdx.x;
  const T *x = logits + row * padded;
  extern __shared__ __align__(16) unsigned char memory[];
  [[maybe_unused]] auto *kept = reinterpret_cast<Pack<T, V> *>(memory);
  // The number of whole packs (V columns) in the vocabulary. The columns after the packs are read one by one.
  const int packs = vocabulary / V;
  Running running{-INFINITY, 0.0f};
#pragma unroll 4
  for (int i = threadIdx.x; i < packs; i += threads) {
    const auto pack = *reinterpret_cast<const Pack<T, V> *>(x + i * V);
    if constexpr (KEEPS) kept[i] = pack;
    float values[V];
#pragma unroll
    for (int j = 0; j < V; j++) values[j] = limited<CAPPED>(to_float(pack.values[j]), cap).value;
    take(running, values);
  }
  for (int column = packs * V + threadIdx.x; column < vocabulary; column += threads) {
    const float value[1] = {limited<CAPPED>(to_float(x[column]), cap).value};
    take(running, value);
  }
  const Running all = merge_block(running);
  const int target = targets[row];
  const bool exists = target >= 0 && target < vocabulary;
  const float missing = target == -1 ? 0.0f : NAN;
  // The target's logit is read before the gradient overwrites it: dlogits may be logits.
  const Softcapped wanted = limited<CAPPED>(exists ? to_float(x[target]) : NAN, cap);
  if (threadIdx.x == 0) losses[row] = exists ? logf(all.sum) + all.maximum - wanted.value : missing;
  if (!dlogits) return;
  __syncthreads();
  T *gradient = dlogits + row * padded;
  const float scale = exists ? dloss / all.sum : missing;
  const float base = all.maximum * log2e;
  const auto share_of = [&](Softcapped logit) { return exp2_approximate(fmaf(logit.value, log2e, -base)) * scale; };
  const auto gradient_of = [&](float value) {
    const Softcapped logit = limited<CAPPED>(value, cap);
    return share_of(logit) * logit.derivative;
  };
#pragma unroll 4
  for (int i = threadIdx.x; i < packs; i += threads) {
    // Each thread reads only elements of `kept` that the same thread has written, so no barrier is needed.
    float values[V];
    if constexpr (KEEPS) {
#pragma unroll
      for (int j = 0; j < V; j++) values[j] = to_float(kept[i].values[j]);
    } else {
      load(values, x + i * V);
    }
#pragma unroll
    for (int j = 0; j < V; j++) values[j] = gradient_of(values[j]);
    store(gradient + i * V, values);
  }
  for (int column = packs * V + threadIdx.x; column < padded; column += threads) {
    const float value = gradient_of(to_float(x[column]));
    gradient[column] = from_float<T>(column < vocabulary ? value : 0.0f);
  }
  __syncthreads();
  if (threadIdx.x == 0 && exists) gradient[target] = from_float<T>((share_of(wanted) - dloss) * wanted.derivative);
}

constexpr int sum_threads = 1024;

__global__ void __launch_bounds__(sum_threads)
    step_sum_kernel(float *step, int element, const float *values, int count, float scale, bool accumulate) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += sum_threads) sum += values[i];
  sum = block_sum<sum_threads>(sum);
  if (threadIdx.x == 0) step[element] = static_cast<float>((accumulate ? step[element] : 0.0) + sum * scale);
}

}  // namespace

void capped_cross_entropy(const CudaContext &context, float *losses, void *dlogits, const void *logits,
                          const int32_t *targets, int N, int V, int Vp, float dloss, float softcap) {
  const auto of = [&](auto element, auto capped) {
    using T = decltype(element);
    auto *gradient = static_cast<T *>(dlogits);
    auto *values = static_cast<const T *>(logits);
    const auto launch = [&](auto *kernel, int shared) {
      if (shared > 0) allow_shared(kernel, shared);
      kernel<<<N, threads, shared, context.stream>>>(losses, gradient, values, targets, V, Vp, dloss, softcap);
    };
    const int row = V / vector_size<T> * 16;
    if (Vp % vector_size<T> != 0 || !on_16_bytes(dlogits, logits)) {
      launch(cross_entropy_kernel<T, 1, false, capped>, 0);
    } else if (dlogits && row + 1024 <= context.shared_limit) {
      launch(cross_entropy_kernel<T, vector_size<T>, true, capped>, row);
    } else {
      launch(cross_entropy_kernel<T, vector_size<T>, false, capped>, 0);
    }
  };
  with_element_type(context, [&](auto element) {
    with_flag(softcap > 0, [&](auto capped) { of(element, capped); });
  });
}

void add_to_step(const CudaContext &context, float *step, int element, const float *values, int N, float scale,
                 bool accumulate) {
  step_sum_kernel<<<1, sum_threads, 0, context.stream>>>(step, element, values, N, scale, accumulate);
}

void ops::cross_entropy(Context &gpu, float *losses, void *dlogits, const void *logits, const int32_t *targets, int N,
                        int V, int Vp, float dloss) {
  capped_cross_entropy(gpu, losses, dlogits, logits, targets, N, V, Vp, dloss, 0);
}

void ops::loss_sum(Context &gpu, float *step, const float *losses, int N, float scale, bool accumulate) {
  add_to_step(gpu, step, GPT2_STEP_LOSS, losses, N, scale, accumulate);
}

}  // namespace gpt2
