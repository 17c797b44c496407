// The sum of two tensors, 16 bytes per thread. ELEMENT is float or __nv_bfloat16.
#include <cstdint>
#include <cuda_bf16.h>

using element = ELEMENT;

constexpr int width = 16 / sizeof(element);  // elements of a pack: 4 of float, 8 of bf16

// Neighbouring elements that a thread reads or writes with one instruction. Its address must be a multiple of 16.
struct alignas(16) Pack {
  element values[width];
};

__device__ bool is_aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

__device__ element sum(element a, element b) {
  return static_cast<element>(static_cast<float>(a) + static_cast<float>(b));
}

// The elements after the last whole pack, or all if a tensor does not start at a multiple of 16 bytes, go one by one. out may be a or b.
__global__ void residual_forward(element *out, const element *a, const element *b, long long count) {
  const long long thread = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const long long threads = gridDim.x * static_cast<long long>(blockDim.x);
  const long long packs = is_aligned(out) && is_aligned(a) && is_aligned(b) ? count / width : 0;
  for (long long i = thread; i < packs; i += threads) {
    Pack x = reinterpret_cast<const Pack *>(a)[i];
    const Pack y = reinterpret_cast<const Pack *>(b)[i];
    for (int j = 0; j < width; j++) x.values[j] = sum(x.values[j], y.values[j]);
    reinterpret_cast<Pack *>(out)[i] = x;
  }
  for (long long i = packs * width + thread; i < count; i += threads) out[i] = sum(a[i], b[i]);
}
