// Attention: the notation, and the offsets of a head's q, k and v.
//
// Notation in all files of attention: S = q k^T / sqrt(HS), P = softmax(S), D = row sums of dout * out, dS = P * (dout
// v^T - D); dq = dS k / sqrt(HS), dk = dS^T q / sqrt(HS), dv = P^T dout (Dao et al. 2022). Backward is two kernels: one
// owns queries and computes D and dq, the other owns keys and computes dk and dv. S is computed twice, but every sum
// has one owner, so there are no atomic sums, no fp32 buffer for dq, and enough blocks at any batch size.
//
// With a mask, query t attends to keys first[t] to t. Because `first` never decreases, key u is seen by the queries u
// to last[u], which backward computes from `first` beforehand. So each line of either side has a range of the other
// side: blocks outside the ranges are not loaded, and only blocks across an end of a range are masked.
#pragma once

#include "common/device.cuh"

namespace gpt2 {

// The positions of the other side that a line of a masked head takes: those from `begin` to begin + `after`.
struct Range {
  int begin = 0;
  unsigned after = 0;

  __device__ __forceinline__ bool hides(int position) const { return static_cast<unsigned>(position - begin) > after; }
};

// Which keys a query attends to; without a mask `first` is NULL. For a line outside the sequence the functions return
// the position of the nearest line, and for an invalid mask a valid position.
struct Mask {
  const int32_t *first;  // [B,T]
  const int32_t *last;   // [B,T], in backward

  __device__ __forceinline__ int first_key(int b, int query, int T) const {
    const int at = min(max(query, 0), T - 1);
    return first ? min(max(__ldg(first + static_cast<int64_t>(b) * T + at), 0), at) : 0;
  }
  __device__ __forceinline__ int last_query(int b, int key, int T) const {
    return last ? __ldg(last + static_cast<int64_t>(b) * T + min(key, T - 1)) : T - 1;
  }
  __device__ __forceinline__ Range keys_of(int b, int query, int T) const {
    const int begin = first_key(b, query, T);
    return {begin, static_cast<unsigned>(query - begin)};
  }
  __device__ __forceinline__ Range queries_of(int b, int key, int T) const {
    return {key, static_cast<unsigned>(last_query(b, key, T) - key)};
  }
};

struct AttentionSizes {
  int B, T, C, NH, HS;
  Mask mask;

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
