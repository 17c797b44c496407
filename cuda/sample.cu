// Chooses the next token of each sequence; see gpt2_sample. Likelihoods become whole numbers (weights), so that the
// cuts of top-k and top-p and the choice itself come out the same in whatever order blocks and warps sum them.
//
// A sequence's logits are cut into chunks, a block for each, because 50,257 of them keep one SM busy for longer than
// all of d12's matmuls: its largest logit; then the weights; then, where top-k or top-p cut, the least weight that is
// kept, byte by byte from histograms (radix select, no sort); then one block finds the chunk and in it the token. Each
// kernel's blocks all work out for themselves what the one before it found.
#include "common/device.cuh"
#include "common/splitmix.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int each = 4;  // elements of a thread
constexpr int chunk = threads * each;
constexpr int digits = 256;
constexpr int levels = 4;  // bytes of a weight
using Sum = unsigned long long;

// The sums over weights of the same byte: how many there are, and what they add up to.
struct Histogram {
  Sum counts[digits], weights[digits];
};

// How far the search for the least weight that is kept has come.
struct Search {
  uint64_t found;     // its bytes so far
  Sum count, weight;  // over the weights beyond these bytes
  Sum target;         // what the kept weights must at least count or add up to
  bool is_count;
};

// Which weights are kept: those over `weight`, and the first `ties` of those that equal it. `total` is the kept ones'
// sum.
struct Cut {
  uint32_t weight;
  Sum ties, total;
};

// What lies in scratch for each sequence.
struct Memory {
  uint32_t *weights;  // [V]
  Sum *largest;       // [chunks] rank of the largest logit, then its index counted from the end; all ones: not finite
  Sum *over, *ties;   // [chunks] sum of the weights over the cut's, count of those that equal it
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
  // Histograms that are made.
  __host__ __device__ int steps() const { return levels * (cuts_count() + cuts_weight()); }
};

// Of all sequences; a sequence's is a view of it.
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

// Larger numbers for larger values, whatever their signs; of a finite value never all ones.
__device__ __forceinline__ Sum rank_of(float value, int index) {
  if (!isfinite(value)) return not_finite;
  const uint32_t bits = __float_as_uint(value + 0.0f);
  const uint32_t rank = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<Sum>(rank) << 32 | static_cast<uint32_t>(~index);
}
__device__ __forceinline__ int index_of(Sum rank) { return static_cast<int>(~static_cast<uint32_t>(rank)); }

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

// The sum over the lanes up to and including the own one.
__device__ __forceinline__ Sum sum_up_to_lane(Sum value) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Sum lower = __shfl_up_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 >= offset) value += lower;
  }
  return value;
}

// Whether a sequence takes part: its text is not full.
__device__ __forceinline__ bool is_open(const int32_t *positions, int b, int S) {
  return positions[b] >= 0 && positions[b] < S;
}

// The rank of a sequence's largest logit.
__device__ __forceinline__ Sum largest_of(const Memory &memory, int chunks) {
  Sum rank = 0;
  for (int c = threadIdx.x; c < chunks; c += threads) rank = max(rank, memory.largest[c]);
  return block_max(rank);
}

template <class T>
__global__ void __launch_bounds__(threads)
    largest_kernel(Scratches scratch, const T *logits, const int32_t *positions, Choice choice) {
  release_next_kernel();
  wait_for_previous_kernel();
  const int c = blockIdx.x % scratch.sizes.chunks, b = blockIdx.x / scratch.sizes.chunks;
  if (!is_open(positions, b, scratch.sizes.S)) return;
  const Memory memory = scratch.of(b);
  const T *row = logits + static_cast<int64_t>(b) * scratch.sizes.Vp;
  Sum rank = 0;
#pragma unroll
  for (int j = 0; j < each; j++) {
    const int i = c * chunk + j * threads + threadIdx.x;
    if (i < scratch.sizes.V) rank = max(rank, rank_of(to_float(row[i]), i));
  }
  rank = block_max(rank);
  if (threadIdx.x == 0) memory.largest[c] = rank;
  // For the kernels behind: histograms begin empty.
  constexpr int words = sizeof(Histogram) / sizeof(Sum);
  auto *empty = reinterpret_cast<Sum *>(memory.histograms);
  for (int i = c * threads + threadIdx.x; i < choice.steps() * words; i += scratch.sizes.chunks * threads) empty[i] = 0;
}

template <class T>
__global__ void __launch_bounds__(threads)
    weights_kernel(Scratches scratch, const T *logits, const int32_t *positions, float temperature) {
  release_next_kernel();
  wait_for_previous_kernel();
  const int c = blockIdx.x % scratch.sizes.chunks, b = blockIdx.x / scratch.sizes.chunks;
  if (!is_open(positions, b, scratch.sizes.S)) return;
  const Memory memory = scratch.of(b);
  const T *row = logits + static_cast<int64_t>(b) * scratch.sizes.Vp;
  const Sum rank = largest_of(memory, scratch.sizes.chunks);
  if (rank == not_finite) return;
  const float largest = to_float(row[index_of(rank)]);
  Sum sum = 0;
#pragma unroll
  for (int j = 0; j < each; j++) {
    const int i = c * chunk + j * threads + threadIdx.x;
    if (i < scratch.sizes.V) {
      const auto weight = static_cast<uint32_t>(expf((to_float(row[i]) - largest) / temperature) * 0x1p31f + 0.5f);
      memory.weights[i] = weight;
      sum += weight;
    }
  }
  sum = block_sum<threads>(sum);
  if (threadIdx.x == 0) {
    // Without a cut all are over it.
    memory.over[c] = sum;
    memory.ties[c] = 0;
  }
}

// What must be reached of a sum, by top_p.
__device__ __forceinline__ Sum share_of(float top_p, Sum total) {
  return max(static_cast<Sum>(ceil(static_cast<double>(top_p) * static_cast<double>(total))), Sum{1});
}

__device__ Cut cut_of(const Search &search) {
  const auto weight = static_cast<uint32_t>(search.found);
  const Sum measure = search.is_count ? 1 : max(weight, 1u);
  const Sum missing = search.target - (search.is_count ? search.count : search.weight);
  const Sum ties = (missing + measure - 1) / measure;
  return {weight, ties, search.weight + ties * weight};
}

// One byte on: by a warp, whose lanes have 8 digits each, the largest in lane 0. Every lane returns it.
__device__ Search advanced(Search search, const Histogram &histogram) {
  const int lane = threadIdx.x % 32, top = digits - 1 - lane * 8;
  Sum counts[8], weights[8], count = 0, weight = 0;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    count += counts[j] = histogram.counts[top - j];
    weight += weights[j] = histogram.weights[top - j];
  }
  const Sum count_to = search.count + sum_up_to_lane(count), weight_to = search.weight + sum_up_to_lane(weight);
  const unsigned reached = __ballot_sync(0xffffffffu, (search.is_count ? count_to : weight_to) >= search.target);
  // All together reach the target: the last lane does if no other.
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

// The search as it stands before step `step` of choice.steps(), by a warp.
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

// Adds `value` to `sums[digit]` for the lanes of a warp that take part, those of the same digit together: where most
// are of one digit they would else wait for each other. Halves of 16 bits, because a warp adds 32 bits at a time.
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
  __shared__ Histogram own;
  __shared__ uint64_t found;
  release_next_kernel();
  wait_for_previous_kernel();
  const int c = blockIdx.x % scratch.sizes.chunks, b = blockIdx.x / scratch.sizes.chunks;
  if (!is_open(positions, b, scratch.sizes.S)) return;
  const Memory memory = scratch.of(b);
  if (largest_of(memory, scratch.sizes.chunks) == not_finite) return;
  own.counts[threadIdx.x] = own.weights[threadIdx.x] = 0;
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
    add_by_digit(own, static_cast<int>(weight >> shift & (digits - 1)), weight, takes_part);
  }
  __syncthreads();
  Histogram &all = memory.histograms[step];
  const Sum count = own.counts[threadIdx.x];
  if (count > 0) {
    atomicAdd(&all.counts[threadIdx.x], count);
    atomicAdd(&all.weights[threadIdx.x], own.weights[threadIdx.x]);
  }
}

// After the last step: each chunk's part of what is kept.
__global__ void __launch_bounds__(threads) kept_kernel(Scratches scratch, const int32_t *positions, Choice choice) {
  __shared__ uint32_t cut_weight;
  release_next_kernel();
  wait_for_previous_kernel();
  const int c = blockIdx.x % scratch.sizes.chunks, b = blockIdx.x / scratch.sizes.chunks;
  if (!is_open(positions, b, scratch.sizes.S)) return;
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

// The sum over the threads before the own one, and over all.
__device__ Sum sum_before_thread(Sum value, Sum &all) {
  __shared__ Sum partial[warps];
  const int warp = threadIdx.x / 32;
  const Sum up_to = sum_up_to_lane(value);
  __syncthreads();
  if (threadIdx.x % 32 == 31) partial[warp] = up_to;
  __syncthreads();
  Sum before = up_to - value;
  all = 0;
#pragma unroll
  for (int w = 0; w < warps; w++) {
    before += w < warp ? partial[w] : 0;
    all += partial[w];
  }
  return before;
}

// By one block for each sequence: the first index at which the running sum of the kept weights is over `place`.
__global__ void __launch_bounds__(threads)
    choose_kernel(int32_t *tokens, int32_t *positions, Scratches scratch, const int32_t *seeds, Choice choice) {
  __shared__ Cut cut;
  __shared__ int found_chunk;
  __shared__ Sum before_chunk, ties_left;
  wait_for_previous_kernel();
  const auto [S, V, Vp, chunks] = scratch.sizes;
  const int b = blockIdx.x, position = positions[b];
  if (!is_open(positions, b, S)) return;
  // All have read the position before it changes.
  __syncthreads();
  if (threadIdx.x == 0) positions[b] = position + 1;
  int32_t *token = tokens + static_cast<int64_t>(b) * (S + 1) + position + 1;
  const Memory memory = scratch.of(b);
  const Sum rank = largest_of(memory, chunks);
  if (rank == not_finite || choice.temperature == 0) {
    if (threadIdx.x == 0) *token = rank == not_finite ? -1 : index_of(rank);
    return;
  }
  if (threadIdx.x < 32) {
    Cut kept{0, 0, 0};
    if (choice.steps() > 0) {
      const int last = choice.steps() - 1;
      kept = cut_of(advanced(memory.searches[last], memory.histograms[last]));
    }
    if (threadIdx.x == 0) cut = kept;
  }
  __syncthreads();

  // Chunks in turns of as many as there are threads: one turn up to 262,144 tokens.
  Sum place = 0, running = 0, ties = cut.ties;
  for (int turn = 0; turn < 2; turn++) {
    // First all together, for the total; then to where the place is.
    if (turn == 1) place = __umul64hi(chance_of(seeds[b], position), running);
    running = 0;
    ties = cut.ties;
    for (int first = 0; first < chunks; first += threads) {
      const int c = first + threadIdx.x;
      const Sum over = c < chunks ? memory.over[c] : 0, equal = c < chunks ? memory.ties[c] : 0;
      Sum all_equal, all_kept;
      const Sum equal_before = sum_before_thread(equal, all_equal);
      const Sum left = ties - min(ties, equal_before);
      const Sum kept = over + min(left, equal) * cut.weight;
      const Sum before = running + sum_before_thread(kept, all_kept);
      if (turn == 1 && before <= place && place < before + kept) {
        found_chunk = c;
        before_chunk = before;
        ties_left = left;
      }
      running += all_kept;
      ties -= min(ties, all_equal);
    }
  }
  __syncthreads();

  // A thread takes neighbours, so that their order is that of the threads.
  uint32_t weights[each];
  Sum equal = 0;
  const int begin = found_chunk * chunk + threadIdx.x * each;
#pragma unroll
  for (int j = 0; j < each; j++) {
    weights[j] = begin + j < V ? memory.weights[begin + j] : 0;
    equal += begin + j < V && weights[j] == cut.weight;
  }
  Sum all;
  const Sum equal_before = sum_before_thread(equal, all);
  Sum left = ties_left - min(ties_left, equal_before), kept = 0;
#pragma unroll
  for (int j = 0; j < each; j++) {
    const bool is_tie = begin + j < V && weights[j] == cut.weight;
    if (weights[j] < cut.weight || (is_tie && left == 0)) weights[j] = 0;
    if (is_tie && left > 0) left--;
    kept += weights[j];
  }
  Sum up_to = before_chunk + sum_before_thread(kept, all);
#pragma unroll
  for (int j = 0; j < each; j++) {
    if (up_to <= place && place < up_to + weights[j]) *token = begin + j;
    up_to += weights[j];
  }
}

int chunks_of(int V) { return static_cast<int>(ceil_divide(V, chunk)); }

Memory take(Scratch &scratch, int B, int V) {
  const int64_t chunks = static_cast<int64_t>(B) * chunks_of(V), steps = static_cast<int64_t>(B) * 2 * levels;
  Memory memory;
  memory.weights = scratch.take<uint32_t>(static_cast<int64_t>(B) * V);
  memory.largest = scratch.take<Sum>(chunks);
  memory.over = scratch.take<Sum>(chunks);
  memory.ties = scratch.take<Sum>(chunks);
  memory.histograms = scratch.take<Histogram>(steps);
  memory.searches = scratch.take<Search>(steps);
  return memory;
}

}  // namespace

int64_t ops::sample_scratch(const gpt2_context &, int B, int V) {
  Scratch scratch;
  take(scratch, B, V);
  return scratch.bytes();
}

int ops::sample(gpt2_context &context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds,
                int B, int S, int V, int Vp, float temperature, int top_k, float top_p) {
  CudaContext &own = cuda(context);
  Scratch memory(own.workspace);
  const int chunks = chunks_of(V);
  const int64_t blocks = static_cast<int64_t>(B) * chunks;
  const Scratches scratch{take(memory, B, V), {S, V, Vp, chunks}};
  // At temperature 0 nothing is cut, and of no more tokens than top_k neither.
  const Choice choice{temperature, temperature > 0 && top_k < V ? top_k : 0, temperature > 0 ? top_p : 1.0f};
  with_element_type(own, [&](auto element) {
    using T = decltype(element);
    auto *rows = static_cast<const T *>(logits);
    launch_overlapping(own, largest_kernel<T>, blocks, threads, 0, scratch, rows, positions, choice);
    if (temperature > 0) {
      launch_overlapping(own, weights_kernel<T>, blocks, threads, 0, scratch, rows, positions, temperature);
    }
  });
  for (int step = 0; step < choice.steps(); step++) {
    launch_overlapping(own, histogram_kernel, blocks, threads, 0, scratch, positions, choice, step);
  }
  if (choice.steps() > 0) launch_overlapping(own, kept_kernel, blocks, threads, 0, scratch, positions, choice);
  launch_overlapping(own, choose_kernel, B, threads, 0, tokens, positions, scratch, seeds, choice);
  return GPT2_LAUNCHED(context, "gpt2_sample");
}

}  // namespace gpt2
