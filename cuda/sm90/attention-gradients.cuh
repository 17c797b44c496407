// Attention backward on Hopper, parts of the kernels that do not depend on the head size. In kernels for keys scores are
// transposed: lines are keys, columns are queries, whose statistics are in shared memory.
#pragma once

#include "attention.cuh"

namespace gpt2::sm90 {

// The dot product of two 16-byte chunks of bf16.
__device__ __forceinline__ float dot_chunks(const uint4 &a, const uint4 &b) {
  const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 p = unpack_bf16(x[i]), q = unpack_bf16(y[i]);
    sum = fmaf(p.x, q.x, fmaf(p.y, q.y, sum));
  }
  return sum;
}

// score = exp(score * scale - lse). lse, in units of log2, begins at the lane's first column. With MASKS
// hides(j, i) says whether the mask hides score j * 4 + i.
template <bool MASKS, int COUNT, class Hides>
__device__ __forceinline__ void probabilities_of_keys(float (&score)[COUNT], const float *lse, float scale_log2,
                                                      Hides hides) {
#pragma unroll
  for (int j = 0; j < COUNT / 4; j++) {
    const float2 lse_log2 = *reinterpret_cast<const float2 *>(lse + j * 8);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float &p = score[j * 4 + i];
      p = exp2_approximate(fmaf(p, scale_log2, -(i % 2 ? lse_log2.y : lse_log2.x)));
      if constexpr (MASKS) {
        if (hides(j, i)) p = 0;
      }
    }
  }
}
// dscore = share * (dscore - D); D begins at the lane's first column.
template <int COUNT>
__device__ __forceinline__ void gradients_of_keys(float (&dscore)[COUNT], const float (&share)[COUNT], const float *D) {
#pragma unroll
  for (int j = 0; j < COUNT / 4; j++) {
    const float2 other_D = *reinterpret_cast<const float2 *>(D + j * 8);
#pragma unroll
    for (int i = 0; i < 4; i++)
      dscore[j * 4 + i] = share[j * 4 + i] * (dscore[j * 4 + i] - (i % 2 ? other_D.y : other_D.x));
  }
}

}  // namespace gpt2::sm90
