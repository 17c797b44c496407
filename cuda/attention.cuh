// Attention: the notation, and the offsets of a head's q, k and v.
//
// Notation in all files of attention: S = q k^T / sqrt(HS), P = softmax(S), D = row sums of dout * out, dS = P * (dout
// v^T - D); dq = dS k / sqrt(HS), dk = dS^T q / sqrt(HS), dv = P^T dout (Dao et al. 2022). Backward is two kernels:
// blocks of one take queries and compute D and dq, blocks of the other take keys and compute dk and dv. S is computed
// twice, but one block computes each sum: no atomic sums, no fp32 buffer for dq, and enough blocks at any batch size.
//
// With a mask, query t attends to keys first[t] to t. Because `first` never decreases, queries u to last[u] attend to
// key u; backward first computes `last` from `first`. So each query has one range of keys, and each key one range of
// queries. Kernels skip blocks outside the range, and mask single elements only at the ends of the range.
#pragma once

#include "common/device.cuh"

namespace gpt2 {

// The keys that a query attends to, or the queries that attend to a key: `begin` to `begin` + `after`, inclusive.
struct Range {
  int begin = 0;
  unsigned after = 0;

  __device__ __forceinline__ bool hides(int position) const { return static_cast<unsigned>(position - begin) > after; }
};

// The keys that queries attend to; `first` is NULL without a mask. A position outside the sequence counts as the
// nearest position inside, and an invalid value in `first` as the nearest valid value.
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
  // Offsets of sequence b's head `head` at position 0: qkv_at of its q in qkv [B,T,3C], out_at in a [B,T,C] tensor.
  __device__ int64_t qkv_at(int b, int head) const { return b * static_cast<int64_t>(T) * stride() + head * HS; }
  __device__ int64_t out_at(int b, int head) const { return b * static_cast<int64_t>(T) * C + head * HS; }
};

// A thread block's head, and its rows (queries or keys) of the head. The grid has one dimension, because B * NH may
// exceed the limit of a second dimension. The blocks of a head are adjacent, to share its keys and values in L2.
struct HeadBlock {
  int block, blocks;  // this block's index in the head, and the head's number of blocks, of `lines` rows each
  int b, head;
  int64_t statistics;  // the offset of the head's row in lse and in D [B,NH,T]

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
