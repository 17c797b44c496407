// Attention: the notation, and the offsets of a head's q, k and v.
//
// Notation in all files of attention: S = q k^T / sqrt(HS), P = softmax(S), D = row sums of dout * out, dS = P * (dout
// v^T - D); dq = dS k / sqrt(HS), dk = dS^T q / sqrt(HS), dv = P^T dout (Dao et al. 2022). Backward is two kernels: one
// owns queries and computes D and dq, the other owns keys and computes dk and dv. S is computed twice, but every sum
// has one owner, so there are no atomics, no fp32 buffer for dq, and enough blocks at any batch size.
#pragma once

#include "common/device.cuh"

namespace gpt2 {

struct AttentionSizes {
  int B, T, C, NH, HS;

  // Elements from one position's qkv to the next position's; q, k and v are C elements apart.
  __host__ __device__ int64_t stride() const { return 3 * static_cast<int64_t>(C); }
  // The offsets at position 0 of a head's q in qkv, and of the head in a [B,T,C] tensor.
  __device__ int64_t qkv_at(int b, int head) const { return b * static_cast<int64_t>(T) * stride() + head * HS; }
  __device__ int64_t out_at(int b, int head) const { return b * static_cast<int64_t>(T) * C + head * HS; }
};

// The lines of a head that a block computes. The grid has one dimension, because there may be more heads than a grid's
// second dimension holds. The blocks of a head are adjacent, so that they share its keys and values in L2.
struct HeadBlock {
  int block, blocks;  // this block's index and the number of blocks in the head, each `lines` long
  int b, head;
  int64_t statistics;  // where the head's [T] of lse and of D begin

  __device__ HeadBlock(const AttentionSizes &sizes, int lines) {
    blocks = (sizes.T + lines - 1) / lines;
    block = blockIdx.x % blocks;
    const int index = blockIdx.x / blocks;
    b = index / sizes.NH;
    head = index % sizes.NH;
    statistics = static_cast<int64_t>(index) * sizes.T;
  }
};

}  // namespace gpt2
