// Ops on flat arrays, out[i] = f(a[i], b[i]): GELU (Hendrycks and Gimpel 2016) in tanh form, forward and backward; the
// softcap of logits; the residual sum. Memory-bound: one pass over the tensors, 16 bytes at a time. Training computes
// GELU and the sum in matmul epilogues instead (matmul.cuh, sm90/product-finisher.cuh), the softcap in the classifier.
#include "common/device.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;

template <class T, class F>
__global__ void __launch_bounds__(threads)
    elementwise_kernel(T *out, const T *a, const T *b, int64_t count, bool vectors, F f) {
  constexpr int V = vector_size<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t packs = vectors ? count / V : 0;
  for (int64_t i = thread; i < packs; i += step) {
    float x[V], y[V];
    load(x, a + i * V);
    load(y, b + i * V);
#pragma unroll
    for (int j = 0; j < V; j++) x[j] = f(x[j], y[j]);
    store(out + i * V, x);
  }
  for (int64_t i = packs * V + thread; i < count; i += step) {
    out[i] = from_float<T>(f(to_float(a[i]), to_float(b[i])));
  }
}

template <class T>
struct Gelu {
  __device__ float operator()(float x, float) const { return gelu<T>(x); }
};
template <class T>
struct GeluBackward {
  __device__ float operator()(float dout, float x) const { return dout * gelu_derivative<T>(x); }
};
template <class>
struct Softcap {
  float cap;
  __device__ float operator()(float x, float) const { return softcapped(x, cap).value; }
};
template <class>
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// Enqueues the kernel of F. `constants` are F's members. An op with one input passes the input as `a` and as `b`.
template <template <class> class F, class... Constants>
void enqueue(const CudaContext &gpu, void *out, const void *a, const void *b, int64_t count, Constants... constants) {
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    const int64_t blocks = ceil_divide(ceil_divide(count, vector_size<T>), threads);
    const int64_t limit = static_cast<int64_t>(gpu.multiprocessors) * 16;
    elementwise_kernel<<<static_cast<unsigned>(blocks < limit ? blocks : limit), threads, 0, gpu.stream>>>(
        static_cast<T *>(out), static_cast<const T *>(a), static_cast<const T *>(b), count, on_16_bytes(out, a, b),
        F<T>{constants...});
  });
}

}  // namespace

void ops::gelu_forward(Context &gpu, void *out, const void *in, int64_t count) {
  enqueue<Gelu>(gpu, out, in, in, count);
}

void ops::gelu_backward(Context &gpu, void *din, const void *dout, const void *in, int64_t count) {
  enqueue<GeluBackward>(gpu, din, dout, in, count);
}

void ops::softcap_forward(Context &gpu, void *out, const void *in, int64_t count, float cap) {
  enqueue<Softcap>(gpu, out, in, in, count, cap);
}

void ops::residual_forward(Context &gpu, void *out, const void *a, const void *b, int64_t count) {
  enqueue<Sum>(gpu, out, a, b, count);
}

}  // namespace gpt2
