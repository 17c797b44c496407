// Sampling of tokens: the data that the kernels pass to each other in scratch, and helpers of sample.cu and
// sample-selection.cu.
#pragma once

#include "common/device.cuh"

namespace gpt2::sampling {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int each = 4;  // elements per thread
constexpr int chunk = threads * each;
constexpr int digits = 256;
constexpr int levels = 4;  // bytes of a weight
using Sum = unsigned long long;

// For each value of a byte: the number of weights that have this byte, and their sum.
struct Histogram {
  Sum counts[digits], weights[digits];
};

// The state of the search for the least weight that is kept.
struct Search {
  uint64_t found;     // the bytes of the weight so far
  Sum count, weight;  // number and sum of the weights above these bytes
  Sum target;         // the number or the sum that the kept weights must reach
  bool is_count;
};

// A cut keeps all weights over `weight`, and the first `ties` weights that equal it. `total` is the kept weights' sum.
struct Cut {
  uint32_t weight;
  Sum ties, total;
};

// The scratch of a sequence.
struct Memory {
  uint32_t *weights;  // [V]
  Sum *largest;       // [chunks] the sort key of the chunk's largest logit (rank_of); all ones if not finite
  Sum *over, *ties;   // [chunks] the sum of the weights over the cut's weight, the number of weights equal to it
  Histogram *histograms;  // [2 * levels], of top-k and of top-p
  Search *searches;       // [2 * levels]
};

struct Sizes {
  int S, V, Vp, chunks;
};

struct Choice {
  float temperature;
  int top_k;
  float top_p;
  __host__ __device__ bool cuts_count() const { return top_k > 0; }
  __host__ __device__ bool cuts_weight() const { return top_p < 1; }
  // The number of histograms: one for each byte of a weight, for each cut in use.
  __host__ __device__ int steps() const { return levels * (cuts_count() + cuts_weight()); }
};

// The scratch of all sequences.
struct Scratches {
  Memory first;
  Sizes sizes;
  __device__ Memory of(int b) const {
    const int64_t c = static_cast<int64_t>(b) * sizes.chunks, s = static_cast<int64_t>(b) * 2 * levels;
    return {first.weights + static_cast<int64_t>(b) * sizes.V,
            first.largest + c,
            first.over + c,
            first.ties + c,
            first.histograms + s,
            first.searches + s};
  }
};

constexpr Sum not_finite = ~Sum{0};

__device__ __forceinline__ Sum block_max(Sum value) {
  __shared__ Sum partial[warps];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < warps; warp++) value = max(value, partial[warp]);
  return value;
}

// Whether a sequence gets a token: its text is not full.
__device__ __forceinline__ bool is_open(const int32_t *positions, int b, int S) {
  return positions[b] >= 0 && positions[b] < S;
}

// Begins a kernel with a block for each chunk `c` of each sequence `b`; false if the sequence gets no token.
__device__ __forceinline__ bool begin(const Scratches &scratch, const int32_t *positions, int &b, int &c) {
  release_next_kernel();
  wait_for_previous_kernel();
  c = blockIdx.x % scratch.sizes.chunks;
  b = blockIdx.x / scratch.sizes.chunks;
  return is_open(positions, b, scratch.sizes.S);
}

// The sort key (rank_of) of a sequence's largest logit.
__device__ __forceinline__ Sum largest_of(const Memory &memory, int chunks) {
  Sum rank = 0;
  for (int c = threadIdx.x; c < chunks; c += threads) rank = max(rank, memory.largest[c]);
  return block_max(rank);
}

__device__ inline Cut cut_of(const Search &search) {
  const auto weight = static_cast<uint32_t>(search.found);
  const Sum measure = search.is_count ? 1 : max(weight, 1u);
  const Sum missing = search.target - (search.is_count ? search.count : search.weight);
  const Sum ties = (missing + measure - 1) / measure;
  return {weight, ties, search.weight + ties * weight};
}

// The search after one more byte. Called by a whole warp: each lane has 8 of the byte's values, lane 0 the largest 8.
__device__ inline Search advanced(Search search, const Histogram &histogram) {
  const int lane = threadIdx.x % 32, top = digits - 1 - lane * 8;
  Sum counts[8], weights[8], count = 0, weight = 0;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    count += counts[j] = histogram.counts[top - j];
    weight += weights[j] = histogram.weights[top - j];
  }
  const Sum count_to = search.count + sum_up_to_lane(count), weight_to = search.weight + sum_up_to_lane(weight);
  const unsigned reached = __ballot_sync(0xffffffffu, (search.is_count ? count_to : weight_to) >= search.target);
  // The first lane that reaches the target. At the latest the last lane does: its sum is the sum over all lanes.
  const int lane_of_it = reached ? __ffs(static_cast<int>(reached)) - 1 : 31;
  search.count = count_to - count;
  search.weight = weight_to - weight;
  int digit = top;
#pragma unroll
  for (int j = 0; j < 7; j++) {
    if (digit == top - j && (search.is_count ? search.count + counts[j] : search.weight + weights[j]) < search.target) {
      search.count += counts[j];
      search.weight += weights[j];
      digit--;
    }
  }
  search.found = search.found << 8 | static_cast<uint64_t>(digit);
  search.found = __shfl_sync(0xffffffffu, search.found, lane_of_it);
  search.count = __shfl_sync(0xffffffffu, search.count, lane_of_it);
  search.weight = __shfl_sync(0xffffffffu, search.weight, lane_of_it);
  return search;
}

// Finds the least weight that top-k and top-p keep, and sums the kept weights of each chunk (sample-selection.cu).
// `blocks` is the number of chunks of all sequences.
void launch_selection(const CudaContext &, const Scratches &, const int32_t *positions, const Choice &, int64_t blocks);

}  // namespace gpt2::sampling
