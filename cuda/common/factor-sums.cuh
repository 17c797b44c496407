// Gradients of a few scalar factors, each a sum over all elements of a matrix: every block adds its rows, and a second
// kernel adds the blocks' sums in order.
#pragma once

#include "partial-sums.cuh"

namespace gpt2 {

constexpr int factor_threads = 256, factor_warps = factor_threads / 32;

// Two blocks per SM, as many as the GPU runs at a time.
inline int factor_blocks(const CudaContext &context) { return 2 * context.multiprocessors; }

// partial [blocks,K]: adds each of K sums over the block's threads and stores it in the block's row.
template <int K>
__device__ __forceinline__ void store_factor_sums(float *partial, const float (&sums)[K]) {
#pragma unroll
  for (int k = 0; k < K; k++) {
    const float sum = block_sum<factor_threads>(sums[k]);
    if (threadIdx.x == 0) partial[blockIdx.x * K + k] = sum;
  }
}

}  // namespace gpt2
