// A layer's input, a weighted sum of the residual stream, an earlier layer's output and the embedding; its gradients.
// Memory-bound. In backward a warp reads a row of each tensor once; for FP8 it reads the row of din again, from L1.
#include "common/factor-sums.cuh"
#include "norm-any.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

template <class T, int V>
__global__ void __launch_bounds__(factor_threads)
    sum_kernel(T *out, const T *in, const T *skip, const T *embedded, const T *factors, int64_t count) {
  wait_for_previous_kernel();
  const float a = to_float(factors[0]), b = to_float(factors[1]), c = skip ? to_float(factors[2]) : 0.0f;
  const int64_t step = static_cast<int64_t>(gridDim.x) * factor_threads * V;
  for (int64_t at = (static_cast<int64_t>(blockIdx.x) * factor_threads + threadIdx.x) * V; at < count; at += step) {
    float x[V], first[V], other[V] = {};
    load(x, in + at);
    load(first, embedded + at);
    if (skip) load(other, skip + at);
#pragma unroll
    for (int i = 0; i < V; i++) x[i] = a * (x[i] + c * other[i]) + b * first[i];
    store(out + at, x);
  }
}

template <class T>
struct Streams {
  const T *dout, *later, *later_factors, *in, *skip, *embedded, *factors;
};

template <class T, int V>
__global__ void __launch_bounds__(factor_threads)
    sum_backward_kernel(T *din, T *dembedded, float *partial, Streams<T> streams, int N, int C, uint8_t *values,
                        float *scale, float *norm) {
  wait_for_previous_kernel();
  const auto [dout, later, later_factors, in, skip, embedded, factors] = streams;
  const float a = to_float(factors[0]), b = to_float(factors[1]), c = skip ? to_float(factors[2]) : 0.0f;
  const float of_later = later ? to_float(later_factors[0]) * to_float(later_factors[2]) : 0.0f;
  const int lane = threadIdx.x % 32;
  float sums[3] = {};
  for (int64_t row = blockIdx.x * factor_warps + threadIdx.x / 32; row < N; row += gridDim.x * factor_warps) {
    float largest = 0;
    for (int column = lane * V; column < C; column += 32 * V) {
      const int64_t at = row * C + column;
      float d[V], x[V], first[V], dfirst[V], other[V] = {}, after[V] = {};
      load(d, dout + at);
      load(x, in + at);
      load(first, embedded + at);
      load(dfirst, dembedded + at);
      if (skip) load(other, skip + at);
      if (later) load(after, later + at);
#pragma unroll
      for (int i = 0; i < V; i++) {
        sums[0] += d[i] * (x[i] + c * other[i]);
        sums[1] += d[i] * first[i];
        sums[2] += d[i] * other[i];
        dfirst[i] += b * d[i];
        d[i] = a * d[i] + of_later * after[i];
        largest = fmaxf(largest, fabsf(to_float(from_float<T>(d[i]))));
      }
      store(dembedded + at, dfirst);
      store(din + at, d);
    }
    if (values) {
      __syncwarp();  // below, lanes read elements that other lanes have stored
      norm_any::quantize_row(values, scale, norm, row, C, largest, [&](int i) { return to_float(din[row * C + i]); });
    }
  }
  sums[2] *= a;
  store_factor_sums(partial, sums);
}

}  // namespace

int64_t ops::factors_scratch(const Context &gpu, int K) {
  Scratch scratch;
  scratch.take<float>(static_cast<int64_t>(factor_blocks(gpu)) * K);
  return scratch.bytes();
}

void ops::stream_sum_forward(Context &gpu, void *out, const void *in, const void *skip, const void *embedded,
                             const void *factors, int N, int C) {
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<T *>(out);
    auto *x = static_cast<const T *>(in), *s = static_cast<const T *>(skip), *e = static_cast<const T *>(embedded);
    with_vectors<T>(
        C,
        [&](auto V) {
          const int64_t count = static_cast<int64_t>(N) * C;
          const int64_t needed = ceil_divide(count, factor_threads * V), most = 16 * int64_t{gpu.multiprocessors};
          launch_overlapping(gpu, sum_kernel<T, V>, needed < most ? needed : most, factor_threads, 0, y, x, s, e,
                             static_cast<const T *>(factors), count);
        },
        y, x, s, e);
  });
}

void ops::stream_sum_backward(Context &gpu, void *din, uint8_t *values, float *scale, float *norm, void *dembedded,
                              float *dfactors, const void *dout, const void *later, const void *later_factors,
                              const void *in, const void *skip, const void *embedded, const void *factors, int N, int C,
                              bool accumulate) {
  const int blocks = factor_blocks(gpu);
  float *partial = Scratch(gpu.workspace).take<float>(blocks * 3);
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    const auto of = [](const void *tensor) { return static_cast<const T *>(tensor); };
    with_vectors<T>(
        C,
        [&](auto V) {
          const Streams<T> streams{of(dout), of(later),    of(later_factors), of(in),
                                   of(skip), of(embedded), of(factors)};
          launch_overlapping(gpu, sum_backward_kernel<T, V>, blocks, factor_threads, 0, static_cast<T *>(din),
                             static_cast<T *>(dembedded), partial, streams, N, C, values, scale, norm);
        },
        din, dembedded, dout, later, in, skip, embedded);
  });
  launch_add_partials(gpu, dfactors, nullptr, partial, blocks, 3, accumulate);
}

}  // namespace gpt2
