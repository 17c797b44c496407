// GELU in its tanh form, 16 bytes per thread. ELEMENT is float or __nv_bfloat16.
#include <cstdint>
#include <cuda_bf16.h>

using element = ELEMENT;

constexpr float scale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr int width = 16 / sizeof(element);   // elements of a pack: 4 of float, 8 of bf16

// Neighbouring elements that a thread reads or writes with one instruction. Its address must be a multiple of 16.
struct alignas(16) Pack {
  element values[width];
};

__device__ bool is_aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)): two special instructions and a few others, where tanhf takes some 30.
__device__ float gate(float x) {
  return __fdividef(1.0f, 1 + __expf(-2 * scale * (x + 0.044715f * x * x * x)));
}

__device__ element forward(element in) {
  const float x = static_cast<float>(in);
  return static_cast<element>(x * gate(x));
}

// With s the gate: gelu' = s + x s (1 - s) * 2 scale (1 + 3 * 0.044715 x^2).
__device__ element backward(element dout, element in) {
  const float x = static_cast<float>(in), s = gate(x);
  const float slope = s + x * s * (1 - s) * 2 * scale * (1 + 3 * 0.044715f * x * x);
  return static_cast<element>(static_cast<float>(dout) * slope);
}

// out = x * gate(x). The elements after the last whole pack, or all if a tensor does not start at a multiple of 16 bytes, go one by one.
__global__ void gelu_forward(element *out, const element *in, long long count) {
  const long long thread = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const long long threads = gridDim.x * static_cast<long long>(blockDim.x);
  const long long packs = is_aligned(out) && is_aligned(in) ? count / width : 0;
  for (long long i = thread; i < packs; i += threads) {
    Pack x = reinterpret_cast<const Pack *>(in)[i];
    for (int j = 0; j < width; j++) x.values[j] = forward(x.values[j]);
    reinterpret_cast<Pack *>(out)[i] = x;
  }
  for (long long i = packs * width + thread; i < count; i += threads) out[i] = forward(in[i]);
}

// din = dout * gelu'(in). din may be dout.
__global__ void gelu_backward(element *din, const element *dout, const element *in, long long count) {
  const long long thread = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const long long threads = gridDim.x * static_cast<long long>(blockDim.x);
  const long long packs = is_aligned(din) && is_aligned(dout) && is_aligned(in) ? count / width : 0;
  for (long long i = thread; i < packs; i += threads) {
    const Pack x = reinterpret_cast<const Pack *>(in)[i];
    Pack d = reinterpret_cast<const Pack *>(dout)[i];
    for (int j = 0; j < width; j++) d.values[j] = backward(d.values[j], x.values[j]);
    reinterpret_cast<Pack *>(din)[i] = d;
  }
  for (long long i = packs * width + thread; i < count; i += threads) din[i] = backward(dout[i], in[i]);
}
