// out[i] = f(a[i], b[i]) over flat arrays, 16 bytes at a time.
#pragma once

#include "device.cuh"

namespace gpt2 {

template <class T, class F>
__global__ void __launch_bounds__(256)
    elementwise_kernel(T *out, const T *a, const T *b, int64_t count, bool vectors, F f) {
  constexpr int V = vector_size<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t packs = vectors ? count / V : 0;
  for (int64_t i = thread; i < packs; i += threads) {
    float x[V], y[V];
    load(x, a + i * V);
    load(y, b + i * V);
#pragma unroll
    for (int j = 0; j < V; j++) x[j] = f(x[j], y[j]);
    store(out + i * V, x);
  }
  for (int64_t i = packs * V + thread; i < count; i += threads) {
    out[i] = from_float<T>(f(to_float(a[i]), to_float(b[i])));
  }
}

template <class T, class F>
void launch_elementwise(const CudaContext &context, T *out, const T *a, const T *b, int64_t count, F f) {
  const int64_t blocks = ceil_divide(ceil_divide(count, vector_size<T>), 256);
  const int64_t limit = static_cast<int64_t>(context.multiprocessors) * 16;
  elementwise_kernel<<<static_cast<unsigned>(blocks < limit ? blocks : limit), 256, 0, context.stream>>>(
      out, a, b, count, on_16_bytes(out, a, b), f);
}

}  // namespace gpt2
