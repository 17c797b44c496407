// Adds partial sums [parts,width] over the parts in a fixed order: the second kernel of a sum that many blocks share.
#pragma once

#include "device.cuh"

namespace gpt2 {

// partial [parts,count]: out (=|+=) the sums over parts of the first `width` columns, and `second`, unless NULL, the
// sums of the next `width`. A block takes 32 columns; each of its 32 warps adds every 32nd part, and the first warp
// adds the warps' sums.
__global__ void __launch_bounds__(1024) static add_partials_kernel(float *out, float *second, const float *partial,
                                                                   int parts, int width, int count, bool accumulate) {
  wait_for_previous_kernel();
  __shared__ float sums[32][33];
  const int column = blockIdx.x * 32 + threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  float sum = 0;
  if (column < count) {
    for (int part = warp; part < parts; part += 32) sum += partial[static_cast<int64_t>(part) * count + column];
  }
  sums[warp][threadIdx.x % 32] = sum;
  __syncthreads();
  if (warp != 0 || column >= count) return;
  float *to = column < width ? out + column : second + (column - width);
  float total = accumulate ? *to : 0.0f;
#pragma unroll
  for (int i = 0; i < 32; i++) total += sums[i][threadIdx.x];
  *to = total;
}

inline void launch_add_partials(const CudaContext &context, float *out, float *second, const float *partial, int parts,
                                int width, bool accumulate) {
  const int count = second ? 2 * width : width;
  launch_overlapping(context, add_partials_kernel, ceil_divide(count, 32), 1024, 0, out, second, partial, parts, width,
                     count, accumulate);
}

// out [count] (=|+=) the sums over few parts of partial [parts,count]. A thread takes 4 columns; count % 4 == 0.
template <class T>
__global__ void __launch_bounds__(256)
    add_parts_kernel(T *out, const float *partial, int parts, int64_t count, bool accumulate) {
  wait_for_previous_kernel();
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * 4;
  if (at >= count) return;
  float sum[4] = {};
#pragma unroll 4
  for (int part = 0; part < parts; part++) {
    float values[4];
    load(values, partial + part * count + at);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += values[i];
  }
  store_or_add(out + at, sum, accumulate);
}

template <class T>
void launch_add_parts(const CudaContext &context, T *out, const float *partial, int parts, int64_t count,
                      bool accumulate) {
  launch_overlapping(context, add_parts_kernel<T>, ceil_divide(count, 4 * 256), 256, 0, out, partial, parts, count,
                     accumulate);
}

}  // namespace gpt2
