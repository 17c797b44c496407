// GELU in its tanh form, with a fixed number of threads that walk over all elements. ELEMENT is float or __nv_bfloat16.
#include <cuda_bf16.h>

using element = ELEMENT;

constexpr float scale = 0.7978845608028654f;  // sqrt(2 / pi)

// out = 0.5 x (1 + tanh(scale (x + 0.044715 x^3)))
__global__ void gelu_forward(element *out, const element *in, long long count) {
  const long long threads = gridDim.x * static_cast<long long>(blockDim.x);
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < count; i += threads) {
    const float x = static_cast<float>(in[i]);
    out[i] = static_cast<element>(0.5f * x * (1 + tanhf(scale * (x + 0.044715f * x * x * x))));
  }
}

// din = dout * gelu'(in). With t the tanh: gelu' = 0.5 (1 + t) + 0.5 x (1 - t^2) * scale (1 + 3 * 0.044715 x^2).
// din may be dout: an element is read and written by the same thread.
__global__ void gelu_backward(element *din, const element *dout, const element *in, long long count) {
  const long long threads = gridDim.x * static_cast<long long>(blockDim.x);
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < count; i += threads) {
    const float x = static_cast<float>(in[i]);
    const float t = tanhf(scale * (x + 0.044715f * x * x * x));
    const float slope = 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * scale * (1 + 3 * 0.044715f * x * x);
    din[i] = static_cast<element>(static_cast<float>(dout[i]) * slope);
  }
}
