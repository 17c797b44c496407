// Layernorm backward, one warp per row: din and the sums of dweight and dbias in one pass over memory, in 16-byte packs. ELEMENT is float
// or __nv_bfloat16. Sums are fp32.
#include <cstdint>
#include <cuda_bf16.h>

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

// Backward of a warp's rows: row, row + step, ... `sums` has C floats for dweight, then C for dbias: value j of pack p at j * packs + p,
// so that neighbouring lanes use neighbouring words. `memory` has two rows. No other warp uses `sums` or `memory`.
template <int WIDTH>
__device__ void backward_rows(element *din, const element *dout, const element *dresidual, const element *in,
                              const element *weight, const float *mean, const float *rstd, int N, int C, int row, int step,
                              float *sums, void *memory) {
  const int lane = threadIdx.x % 32, packs = C / WIDTH;
  auto *kept_d = static_cast<Pack<WIDTH> *>(memory), *kept_x = kept_d + packs;
  for (int c = lane; c < packs * WIDTH; c += 32) sums[c] = sums[C + c] = 0;
  __syncwarp();
  for (; row < N; row += step) {
    const size_t at = static_cast<size_t>(row) * C;
    const float m = mean[row], r = rstd[row];
    float sum = 0, sum_normalized = 0;
#pragma unroll 2
    for (int p = lane; p < packs; p += 32) {
      const Pack<WIDTH> d = packs_of<WIDTH>(dout + at)[p], x = packs_of<WIDTH>(in + at)[p];
      const Pack<WIDTH> w = packs_of<WIDTH>(weight)[p];
      kept_d[p] = d;
      kept_x[p] = x;
      for (int j = 0; j < WIDTH; j++) {
        const float normalized = (x[j] - m) * r;
        sums[j * packs + p] += d[j] * normalized;
        sums[C + j * packs + p] += d[j];
        sum += d[j] * w[j];
        sum_normalized += d[j] * w[j] * normalized;
      }
    }
    sum = warp_sum(sum) / C;
    sum_normalized = warp_sum(sum_normalized) / C;
#pragma unroll 2
    for (int p = lane; p < packs; p += 32) {
      const Pack<WIDTH> d = kept_d[p], x = kept_x[p], w = packs_of<WIDTH>(weight)[p];
      // din may be dresidual: this pack is read before it is written, and no other thread touches it.
      const Pack<WIDTH> residual = dresidual ? packs_of<WIDTH>(dresidual + at)[p] : Pack<WIDTH>{};
      Pack<WIDTH> result;
      for (int j = 0; j < WIDTH; j++) {
        const float g = r * (d[j] * w[j] - sum - (x[j] - m) * r * sum_normalized);
        result.values[j] = static_cast<element>(g + (dresidual ? residual[j] : 0.0f));
      }
      reinterpret_cast<Pack<WIDTH> *>(din + at)[p] = result;
    }
  }
}

// din of all rows, and partial[block] = the sums of dout * normalized, then of dout, over the block's rows. A warp has warp_bytes of
// shared memory: 2 C floats and two rows.
__global__ void layernorm_backward(element *din, float *partial, const element *dout, const element *dresidual,
                                   const element *in, const element *weight, const float *mean, const float *rstd, int N,
                                   int C, int warp_bytes) {
  extern __shared__ float4 memory[];
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int row = blockIdx.x * warps + warp, step = gridDim.x * warps;
  char *own = reinterpret_cast<char *>(memory) + warp * warp_bytes;
  auto *sums = reinterpret_cast<float *>(own);
  const bool vectors = C % width == 0 && is_aligned(din) && is_aligned(dout) && is_aligned(dresidual) && is_aligned(in) &&
                       is_aligned(weight);
  if (vectors) {
    backward_rows<width>(din, dout, dresidual, in, weight, mean, rstd, N, C, row, step, sums, sums + 2 * C);
  } else {
    char *kept = own + (2 * C + 3) / 4 * 16;
    backward_rows<1>(din, dout, dresidual, in, weight, mean, rstd, N, C, row, step, sums, kept);
  }
  __syncthreads();
  const int used = vectors ? width : 1;
  for (int c = threadIdx.x; c < 2 * C; c += blockDim.x) {
    const int column = c % C, i = c / C * C + column % used * (C / used) + column / used;
    float sum = 0;
    for (int w = 0; w < warps; w++) sum += reinterpret_cast<float *>(reinterpret_cast<char *>(memory) + w * warp_bytes)[i];
    partial[static_cast<size_t>(blockIdx.x) * 2 * C + c] = sum;
  }
}

// dweight and dbias (=|+=) the sums of all blocks. Each warp takes every 32nd block, and the first adds what the 32 warps have.
__global__ void layernorm_add_partials(float *dweight, float *dbias, const float *partial, int C, int blocks,
                                       int accumulate) {
  __shared__ float sums[32][32];
  const int lane = threadIdx.x, warp = threadIdx.y, c = blockIdx.x * 32 + lane;
  float sum = 0;
#pragma unroll 4
  for (int block = warp; block < blocks && c < 2 * C; block += 32) sum += partial[static_cast<size_t>(block) * 2 * C + c];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || c >= 2 * C) return;
  for (int other = 1; other < 32; other++) sum += sums[other][lane];
  float &result = c < C ? dweight[c] : dbias[c - C];
  result = (accumulate ? result : 0) + sum;
}
