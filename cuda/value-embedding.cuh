// The mix of a layer's v with a value embedding (Zhou et al. 2024): values = v and then v = factors[0] v + factors[1]
// embedded, for the v of rows of qkv [tokens,3C]; and its gradients. Memory-bound: a warp takes a row.
#pragma once

#include "common/factor-sums.cuh"

namespace gpt2 {

template <class T, int V>
__global__ void __launch_bounds__(factor_threads)
    values_kernel(T *qkv, T *values, const T *factors, const T *embedded, int tokens, int C) {
  wait_for_previous_kernel();
  const float a = to_float(factors[0]), b = embedded ? to_float(factors[1]) : 0.0f;
  const int lane = threadIdx.x % 32;
  for (int64_t row = blockIdx.x * factor_warps + threadIdx.x / 32; row < tokens; row += gridDim.x * factor_warps) {
    for (int column = lane * V; column < C; column += 32 * V) {
      T *v = qkv + row * 3 * C + 2 * C + column;
      float x[V], e[V] = {};
      load(x, v);
      if (embedded) load(e, embedded + row * C + column);
      store(values + row * C + column, x);
#pragma unroll
      for (int i = 0; i < V; i++) x[i] = a * x[i] + b * e[i];
      store(v, x);
    }
  }
}

template <class T, int V>
__global__ void __launch_bounds__(factor_threads)
    values_backward_kernel(T *dqkv, T *dembedded, float *partial, const T *factors, const T *values, const T *embedded,
                           int tokens, int C) {
  wait_for_previous_kernel();
  const float a = to_float(factors[0]), b = to_float(factors[1]);
  const int lane = threadIdx.x % 32;
  float sums[2] = {};
  for (int64_t row = blockIdx.x * factor_warps + threadIdx.x / 32; row < tokens; row += gridDim.x * factor_warps) {
    for (int column = lane * V; column < C; column += 32 * V) {
      T *dv = dqkv + row * 3 * C + 2 * C + column;
      float d[V], x[V], e[V] = {};
      load(d, dv);
      load(x, values + row * C + column);
      if (embedded) load(e, embedded + row * C + column);
#pragma unroll
      for (int i = 0; i < V; i++) {
        sums[0] += d[i] * x[i];
        sums[1] += d[i] * e[i];
        e[i] = b * d[i];
        d[i] *= a;
      }
      if (embedded) store(dembedded + row * C + column, e);
      store(dv, d);
    }
  }
  store_factor_sums(partial, sums);
}

template <class T>
void mix_values(const CudaContext &gpu, T *qkv, T *values, const void *factors, const void *embedded, int tokens,
                int C) {
  auto *f = static_cast<const T *>(factors), *e = static_cast<const T *>(embedded);
  with_vectors<T>(
      C,
      [&](auto V) {
        launch_overlapping(gpu, values_kernel<T, V>, factor_blocks(gpu) * 4, factor_threads, 0, qkv, values, f, e,
                           tokens, C);
      },
      qkv, values, e);
}

// Needs gpt2_factors_scratch(2) bytes of the workspace.
template <class T>
void mix_values_backward(const CudaContext &gpu, T *dqkv, T *dembedded, float *dfactors, const void *factors,
                         const void *values, const void *embedded, int tokens, int C, bool accumulate) {
  const int blocks = factor_blocks(gpu);
  float *partial = Scratch(gpu.workspace).take<float>(blocks * 2);
  auto *f = static_cast<const T *>(factors), *v = static_cast<const T *>(values);
  auto *e = static_cast<const T *>(embedded);
  with_vectors<T>(
      C,
      [&](auto V) {
        launch_overlapping(gpu, values_backward_kernel<T, V>, blocks, factor_threads, 0, dqkv, dembedded, partial, f, v,
                           e, tokens, C);
      },
      dqkv, dembedded, v, e);
  launch_add_partials(gpu, dfactors, nullptr, partial, blocks, 2, accumulate);
}

}  // namespace gpt2
