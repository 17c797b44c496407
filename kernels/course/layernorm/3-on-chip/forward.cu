// Layernorm forward, one warp per row, which is copied to shared memory once, in 16-byte packs. ELEMENT is float or __nv_bfloat16. Sums are
// fp32.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

using element = ELEMENT;

constexpr int width = 16 / sizeof(element);  // elements of 16 bytes

// WIDTH neighbouring elements, which one instruction reads or writes.
template <int WIDTH>
struct alignas(WIDTH * sizeof(element)) Pack {
  element values[WIDTH];
  __device__ float operator[](int j) const { return static_cast<float>(values[j]); }
};

template <int WIDTH>
__device__ const Pack<WIDTH> *packs_of(const element *x) {
  return reinterpret_cast<const Pack<WIDTH> *>(x);
}

__device__ bool is_aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// The sum of the 32 lanes' values, which every lane gets.
__device__ float warp_sum(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}

// Forward of one row. A lane has the packs lane, lane + 32, ...: it reads from `kept` only what it wrote there: no barrier is needed.
template <int WIDTH>
__device__ void forward_row(element *out, float *mean, float *rstd, const element *in, const element *weight,
                            const element *bias, void *memory, int C, float eps) {
  const int lane = threadIdx.x % 32, packs = C / WIDTH;
  auto *kept = static_cast<Pack<WIDTH> *>(memory);
  float sum = 0, squares = 0;
  // All of the lane's copies are on their way before it waits for any.
  for (int p = lane; p < packs; p += 32) {
    if constexpr (WIDTH == width) __pipeline_memcpy_async(&kept[p], packs_of<WIDTH>(in) + p, 16);
    else kept[p] = packs_of<WIDTH>(in)[p];
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  for (int p = lane; p < packs; p += 32) {
    const Pack<WIDTH> x = kept[p];
    for (int j = 0; j < WIDTH; j++) sum += x[j];
  }
  const float m = warp_sum(sum) / C;
  for (int p = lane; p < packs; p += 32) {
    const Pack<WIDTH> x = kept[p];
    for (int j = 0; j < WIDTH; j++) squares += (x[j] - m) * (x[j] - m);
  }
  const float r = rsqrtf(warp_sum(squares) / C + eps);
#pragma unroll 1
  for (int p = lane; p < packs; p += 32) {
    const Pack<WIDTH> x = kept[p], w = packs_of<WIDTH>(weight)[p], b = packs_of<WIDTH>(bias)[p];
    Pack<WIDTH> y;
    for (int j = 0; j < WIDTH; j++) y.values[j] = static_cast<element>((x[j] - m) * r * w[j] + b[j]);
    reinterpret_cast<Pack<WIDTH> *>(out)[p] = y;
  }
  if (lane == 0) {
    *mean = m;
    *rstd = r;
  }
}

// out = (in - mean) * rstd * weight + bias, over rows of C. A warp has row_bytes of shared memory. With at most 32 registers all 64 warps
// that an SM can hold run at the same time.
__global__ void __launch_bounds__(128, 16) layernorm_forward(element *out, float *mean, float *rstd, const element *in,
                                                             const element *weight, const element *bias, int N, int C,
                                                             float eps, int row_bytes) {
  extern __shared__ float4 memory[];
  const int warp = threadIdx.x / 32, row = blockIdx.x * (blockDim.x / 32) + warp;
  if (row >= N) return;
  const size_t at = static_cast<size_t>(row) * C;
  char *kept = reinterpret_cast<char *>(memory) + warp * row_bytes;
  const bool vectors = C % width == 0 && is_aligned(out) && is_aligned(in) && is_aligned(weight) && is_aligned(bias);
  if (vectors) {
    forward_row<width>(out + at, mean + row, rstd + row, in + at, weight, bias, kept, C, eps);
  } else {
    forward_row<1>(out + at, mean + row, rstd + row, in + at, weight, bias, kept, C, eps);
  }
}
