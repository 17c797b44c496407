// GELU (Hendrycks and Gimpel 2016) with tanh, forward and backward. Memory-bound: one pass over the tensors. Training
// uses the matmuls' epilogues instead (matmul.cuh, sm90/product-finisher.cuh).
#include "common/elementwise.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

template <class T>
struct Forward {
  __device__ float operator()(float x, float) const { return gelu<T>(x); }
};

template <class T>
struct Backward {
  __device__ float operator()(float dout, float x) const { return dout * gelu_derivative<T>(x); }
};

}  // namespace

int ops::gelu_forward(gpt2_context &context, void *out, const void *in, int64_t count) {
  CudaContext &gpu = cuda(context);
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    auto *x = static_cast<const T *>(in);
    launch_elementwise(gpu, static_cast<T *>(out), x, x, count, Forward<T>{});
  });
  return GPT2_LAUNCHED(context, "gpt2_gelu_forward");
}

int ops::gelu_backward(gpt2_context &context, void *din, const void *dout, const void *in, int64_t count) {
  CudaContext &gpu = cuda(context);
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    launch_elementwise(gpu, static_cast<T *>(din), static_cast<const T *>(dout), static_cast<const T *>(in), count,
                       Backward<T>{});
  });
  return GPT2_LAUNCHED(context, "gpt2_gelu_backward");
}

}  // namespace gpt2
