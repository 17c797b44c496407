// Chooses the next token of each sequence; see gpt2_sample. Likelihoods become integers (weights), so that the cuts of
// top-k and top-p and the choice itself are the same in whatever order blocks and warps add them.
//
// A sequence's logits are divided into chunks, one block for each, because 50,257 logits keep one SM busy for longer
// than all of d12's matmuls. The kernels find the largest logit, then the weights, then the least weight that top-k and
// top-p keep (sample-selection.cu); last, one block per sequence finds the chunk and the token in the chunk. Each block
// combines the previous kernel's results of all chunks itself.
#include "common/splitmix.h"
#include "runtime/ops.generated.h"
#include "sample.cuh"

namespace gpt2 {

namespace {

using namespace sampling;

// A sort key for logits: larger for a larger value, then for a smaller index. A finite value's key is never all ones.
__device__ __forceinline__ Sum rank_of(float value, int index) {
  if (!isfinite(value)) return not_finite;
  const uint32_t bits = __float_as_uint(value + 0.0f);
  const uint32_t rank = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<Sum>(rank) << 32 | static_cast<uint32_t>(~index);
}
__device__ __forceinline__ int index_of(Sum rank) { return static_cast<int>(~static_cast<uint32_t>(rank)); }

template <class T>
__global__ void __launch_bounds__(threads)
    largest_kernel(Scratches scratch, const T *logits, const int32_t *positions, Choice choice) {
  int b, c;
  if (!begin(scratch, positions, b, c)) return;
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
  // Clears the histograms for the next kernels.
  constexpr int words = sizeof(Histogram) / sizeof(Sum);
  auto *empty = reinterpret_cast<Sum *>(memory.histograms);
  for (int i = c * threads + threadIdx.x; i < choice.steps() * words; i += scratch.sizes.chunks * threads) empty[i] = 0;
}

template <class T>
__global__ void __launch_bounds__(threads)
    weights_kernel(Scratches scratch, const T *logits, const int32_t *positions, float temperature) {
  int b, c;
  if (!begin(scratch, positions, b, c)) return;
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
    // If nothing is cut, every weight counts as above the cut.
    memory.over[c] = sum;
    memory.ties[c] = 0;
  }
}

// The sum of `value` over the block's threads of lower index; `all` becomes the sum over all threads of the block.
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

// A block per sequence chooses the first token at which the running sum of the kept weights exceeds `place`.
__global__ void __launch_bounds__(threads)
    choose_kernel(int32_t *tokens, int32_t *positions, Scratches scratch, const int32_t *seeds, Choice choice) {
  __shared__ Cut cut;
  __shared__ int found_chunk;
  __shared__ Sum before_chunk, ties_left;
  wait_for_previous_kernel();
  const auto [S, V, Vp, chunks] = scratch.sizes;
  const int b = blockIdx.x, position = positions[b];
  if (!is_open(positions, b, S)) return;
  // All threads must have read the position before it changes.
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

  // The loop over `first` takes a chunk per thread: 256 chunks, 262,144 tokens, at a time.
  Sum place = 0, running = 0, ties = cut.ties;
  for (int turn = 0; turn < 2; turn++) {
    // Turn 0 sums the kept weights of all chunks, for the random `place`; turn 1 finds the chunk that contains `place`.
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

  // A thread takes adjacent weights, so that sums over threads are in the order of tokens.
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

int64_t ops::sample_scratch(const Context &, int B, int V) {
  Scratch scratch;
  take(scratch, B, V);
  return scratch.bytes();
}

void ops::sample(Context &gpu, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds, int B,
                 int S, int V, int Vp, float temperature, int top_k, float top_p) {
  Scratch memory(gpu.workspace);
  const int chunks = chunks_of(V);
  const int64_t blocks = static_cast<int64_t>(B) * chunks;
  const Scratches scratch{take(memory, B, V), {S, V, Vp, chunks}};
  // At temperature 0, top_k and top_p are ignored. A top_k of V or more keeps all tokens.
  const Choice choice{temperature, temperature > 0 && top_k < V ? top_k : 0, temperature > 0 ? top_p : 1.0f};
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    auto *rows = static_cast<const T *>(logits);
    launch_overlapping(gpu, largest_kernel<T>, blocks, threads, 0, scratch, rows, positions, choice);
    if (temperature > 0) {
      launch_overlapping(gpu, weights_kernel<T>, blocks, threads, 0, scratch, rows, positions, temperature);
    }
  });
  launch_selection(gpu, scratch, positions, choice, blocks);
  launch_overlapping(gpu, choose_kernel, B, threads, 0, tokens, positions, scratch, seeds, choice);
}

}  // namespace gpt2
