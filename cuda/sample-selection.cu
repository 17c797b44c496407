// Selects the tokens that top-k and top-p keep: finds the least weight (a likelihood as an integer) that is kept, byte
// by byte, from histograms (a radix select, no sort), then sums each chunk's kept weights for the choice (sample.cu).
#include "sample.cuh"

namespace gpt2 {

namespace {

using namespace sampling;

// The least sum that the kept weights must reach under top_p, if all weights sum to `total`.
__device__ __forceinline__ Sum share_of(float top_p, Sum total) {
  return max(static_cast<Sum>(ceil(static_cast<double>(top_p) * static_cast<double>(total))), Sum{1});
}

// The state of the search before a step. A step finds one byte of the least weight that is kept: 4 steps for top-k, if
// used, then 4 for top-p. Called by a whole warp.
__device__ Search search_at(const Memory &memory, const Choice &choice, int step, int chunks) {
  if (step % levels > 0) return advanced(memory.searches[step - 1], memory.histograms[step - 1]);
  if (step == 0 && choice.cuts_count()) return {0, 0, 0, static_cast<Sum>(choice.top_k), true};
  Sum total = 0;
  if (step > 0) {
    total = cut_of(advanced(memory.searches[step - 1], memory.histograms[step - 1])).total;
  } else {
    for (int c = threadIdx.x % 32; c < chunks; c += 32) total += memory.over[c];
    total = warp_sum(total);
  }
  return {0, 0, 0, share_of(choice.top_p, total), false};
}

// Adds each participating lane's weight to its digit's sum. Lanes with the same digit sum their weights first, because
// atomics on one address are serialized. They sum halves of 16 bits, so that __reduce_add_sync's 32 bits suffice.
__device__ __forceinline__ void add_by_digit(Histogram &sums, int digit, uint32_t weight, bool takes_part) {
  const unsigned active = __ballot_sync(0xffffffffu, takes_part);
  if (!takes_part) return;
  const unsigned peers = __match_any_sync(active, digit);
  const unsigned low = __reduce_add_sync(peers, weight & 0xffffu), high = __reduce_add_sync(peers, weight >> 16);
  if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(peers)) - 1) {
    atomicAdd(&sums.counts[digit], static_cast<Sum>(__popc(peers)));
    atomicAdd(&sums.weights[digit], (static_cast<Sum>(high) << 16) + low);
  }
}

__global__ void __launch_bounds__(threads)
    histogram_kernel(Scratches scratch, const int32_t *positions, Choice choice, int step) {
  __shared__ Histogram block_sums;
  __shared__ uint64_t found;
  int b, c;
  if (!begin(scratch, positions, b, c)) return;
  const Memory memory = scratch.of(b);
  if (largest_of(memory, scratch.sizes.chunks) == not_finite) return;
  block_sums.counts[threadIdx.x] = block_sums.weights[threadIdx.x] = 0;
  if (threadIdx.x < 32) {
    const Search search = search_at(memory, choice, step, scratch.sizes.chunks);
    if (threadIdx.x == 0) {
      found = search.found;
      if (c == 0) memory.searches[step] = search;
    }
  }
  __syncthreads();
  const int shift = 24 - step % levels * 8;
#pragma unroll
  for (int j = 0; j < each; j++) {
    const int i = c * chunk + j * threads + threadIdx.x;
    const uint32_t weight = i < scratch.sizes.V ? memory.weights[i] : 0;
    const bool takes_part = i < scratch.sizes.V && static_cast<uint64_t>(weight) >> (shift + 8) == found;
    add_by_digit(block_sums, static_cast<int>(weight >> shift & (digits - 1)), weight, takes_part);
  }
  __syncthreads();
  Histogram &all = memory.histograms[step];
  const Sum count = block_sums.counts[threadIdx.x];
  if (count > 0) {
    atomicAdd(&all.counts[threadIdx.x], count);
    atomicAdd(&all.weights[threadIdx.x], block_sums.weights[threadIdx.x]);
  }
}

// Stores, after the last step, each chunk's sum of weights over the cut's weight, and number of weights equal to it.
__global__ void __launch_bounds__(threads) kept_kernel(Scratches scratch, const int32_t *positions, Choice choice) {
  __shared__ uint32_t cut_weight;
  int b, c;
  if (!begin(scratch, positions, b, c)) return;
  const Memory memory = scratch.of(b);
  if (largest_of(memory, scratch.sizes.chunks) == not_finite) return;
  if (threadIdx.x < 32) {
    const int last = choice.steps() - 1;
    const Search search = advanced(memory.searches[last], memory.histograms[last]);
    if (threadIdx.x == 0) cut_weight = cut_of(search).weight;
  }
  __syncthreads();
  Sum over = 0, ties = 0;
#pragma unroll
  for (int j = 0; j < each; j++) {
    const int i = c * chunk + j * threads + threadIdx.x;
    if (i < scratch.sizes.V) {
      over += memory.weights[i] > cut_weight ? memory.weights[i] : 0;
      ties += memory.weights[i] == cut_weight;
    }
  }
  over = block_sum<threads>(over);
  ties = block_sum<threads>(ties);
  if (threadIdx.x == 0) {
    memory.over[c] = over;
    memory.ties[c] = ties;
  }
}

}  // namespace

void sampling::launch_selection(const CudaContext &context, const Scratches &scratch, const int32_t *positions,
                                const Choice &choice, int64_t blocks) {
  for (int step = 0; step < choice.steps(); step++) {
    launch_overlapping(context, histogram_kernel, blocks, threads, 0, scratch, positions, choice, step);
  }
  if (choice.steps() > 0) launch_overlapping(context, kept_kernel, blocks, threads, 0, scratch, positions, choice);
}

}  // namespace gpt2
