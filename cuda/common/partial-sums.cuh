// The second half of a sum that many blocks share: adding [parts, width] partial sums over parts, in a fixed order.
#pragma once

#include "device.cuh"

namespace gpt2 {

// out (=|+=) sum over parts of partial[part, column]. A block takes 32 columns; its 32 warps each add every 32nd part,
// and the first warp adds what they have.
template <class T>
__global__ void __launch_bounds__(1024) add_partials_kernel(T *out, const float *partial, int parts, int width,
                                                            int row_stride, bool accumulate) {
  __shared__ float sums[32][33];
  const int column = blockIdx.x * 32 + threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  float sum = 0;
  if (column < width) {
    for (int part = warp; part < parts; part += 32) sum += partial[static_cast<int64_t>(part) * row_stride + column];
  }
  sums[warp][threadIdx.x % 32] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  float total = accumulate ? to_float(out[column]) : 0.0f;
#pragma unroll
  for (int i = 0; i < 32; i++) total += sums[i][threadIdx.x];
  out[column] = from_float<T>(total);
}

template <class T>
void launch_add_partials(const CudaContext &context, T *out, const float *partial, int parts, int width,
                         int row_stride, bool accumulate) {
  add_partials_kernel<<<static_cast<unsigned>(ceil_divide(width, 32)), 1024, 0, context.stream>>>(
      out, partial, parts, width, row_stride, accumulate);
}

}  // namespace gpt2
