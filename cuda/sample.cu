// Chooses the next token of each sequence, a block for each. Likelihoods become whole numbers (weights), so that the
// cuts of top-k and top-p and the choice itself come out the same in whatever order blocks and warps sum them; see
// gpt2_sample. No sort: the least weight that is kept is found byte by byte, from histograms (radix select).
#include "common/device.cuh"
#include "common/splitmix.h"
#include "runtime/ops.h"

namespace gpt2 {

namespace {

constexpr int threads = 1024;
constexpr int warps = threads / 32;
constexpr int digits = 256;
using Sum = unsigned long long;

// Calls `body(i, value)` for the V elements of a row, 16 bytes of logits at a time where they are aligned.
template <class T, class Body>
__device__ __forceinline__ void each_logit(const T *row, int V, Body body) {
  constexpr int width = vector_size<T>;
  int i = threadIdx.x * width;
  if (reinterpret_cast<uintptr_t>(row) % 16 == 0) {
#pragma unroll 4
    for (; i + width <= V; i += threads * width) {
      float values[width];
      load(values, row + i);
#pragma unroll
      for (int j = 0; j < width; j++) body(i + j, values[j]);
    }
    for (int j = 0; i + j < V && j < width; j++) body(i + j, to_float(row[i + j]));
  } else {
    for (i = threadIdx.x; i < V; i += threads) body(i, to_float(row[i]));
  }
}

// Larger numbers for larger values, whatever their signs.
__device__ __forceinline__ uint32_t rank_of(float value) {
  const uint32_t bits = __float_as_uint(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ Sum block_max(Sum value) {
  __shared__ Sum partial[warps];
  for (int offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < warps; warp++) value = max(value, partial[warp]);
  return value;
}

// The sum over the lanes up to and including the own one.
__device__ __forceinline__ Sum sum_up_to_lane(Sum value) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Sum lower = __shfl_up_sync(0xffffffffu, value, offset);
    if (lane >= offset) value += lower;
  }
  return value;
}

// Which weights are kept: those over `weight`, and the first `ties` of those that equal it.
struct Cut {
  uint32_t weight;
  Sum ties;
};

// The fewest largest weights whose measures sum to at least `target`, which all together reach: the bytes of the least
// of them, found from the top one down.
template <class Measure>
__device__ Cut cut_at(const uint32_t *weights, int V, Sum target, Measure measure) {
  __shared__ Sum sums[digits], before_digit;
  __shared__ int found_digit;
  uint64_t found = 0;
  Sum before = 0;  // over the weights beyond those of the bytes found so far
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < digits; i += threads) sums[i] = 0;
    __syncthreads();
    // Most tokens are unlikely, so that their upper bytes are 0: these are summed by the threads themselves.
    Sum low = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < V; i += threads) {
      const uint64_t weight = weights[i];
      if (weight >> (shift + 8) != found) continue;
      const int digit = static_cast<int>(weight >> shift & (digits - 1));
      if (digit == 0) {
        low += measure(weights[i]);
      } else {
        atomicAdd(&sums[digit], measure(weights[i]));
      }
    }
    low = warp_sum(low);
    if (threadIdx.x % 32 == 0 && low > 0) atomicAdd(&sums[0], low);
    __syncthreads();
    if (threadIdx.x < 32) {
      // A lane has 8 digits, the largest in lane 0.
      const int top = digits - 1 - static_cast<int>(threadIdx.x) * 8;
      Sum own = 0;
      for (int j = 0; j < 8; j++) own += sums[top - j];
      const Sum up_to = before + sum_up_to_lane(own);
      const unsigned reached = __ballot_sync(0xffffffffu, up_to >= target);
      // Lane 31 reaches the target if any does.
      const int lane = reached ? __ffs(static_cast<int>(reached)) - 1 : 31;
      if (static_cast<int>(threadIdx.x) == lane) {
        Sum passed = up_to - own;
        int digit = top;
        while (digit > top - 7 && passed + sums[digit] < target) passed += sums[digit--];
        found_digit = digit;
        before_digit = passed;
      }
    }
    __syncthreads();
    found = found << 8 | static_cast<uint64_t>(found_digit);
    before = before_digit;
    __syncthreads();
  }
  const auto weight = static_cast<uint32_t>(found);
  const Sum each = max(measure(weight), Sum{1});
  return {weight, (target - before + each - 1) / each};
}

__device__ Sum sum_of_kept(const uint32_t *weights, int V, const Cut &cut) {
  Sum sum = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < V; i += threads) sum += weights[i] > cut.weight ? weights[i] : 0;
  return block_sum<threads>(sum) + cut.ties * cut.weight;
}

// The first index at which the running sum of the kept weights is over `place`. Each warp has a stretch of neighbours.
__device__ void find(int32_t *choice, const uint32_t *weights, int V, const Cut &cut, Sum place) {
  __shared__ Sum over[warps], equal[warps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int stretch = (V + threads - 1) / threads * 32;
  const int begin = warp * stretch, end = min(begin + stretch, V);
  Sum own_over = 0, own_equal = 0;
#pragma unroll 4
  for (int i = begin + lane; i < end; i += 32) {
    own_over += weights[i] > cut.weight ? weights[i] : 0;
    own_equal += weights[i] == cut.weight;
  }
  own_over = warp_sum(own_over);
  own_equal = warp_sum(own_equal);
  if (lane == 0) {
    over[warp] = own_over;
    equal[warp] = own_equal;
  }
  __syncthreads();
  Sum running = 0, ties = cut.ties;
  for (int w = 0; w < warp; w++) {
    const Sum kept = min(ties, equal[w]);
    running += over[w] + kept * cut.weight;
    ties -= kept;
  }
  if (running > place || running + own_over + min(ties, own_equal) * cut.weight <= place) return;
  for (int first = begin; first < end; first += 32) {
    const int i = first + lane;
    const uint32_t weight = i < end ? weights[i] : 0;
    const bool is_tie = i < end && weight == cut.weight;
    const unsigned tied = __ballot_sync(0xffffffffu, is_tie);
    const bool is_kept = is_tie ? __popc(tied & ((1u << lane) - 1)) < ties : i < end && weight > cut.weight;
    const Sum up_to = running + sum_up_to_lane(is_kept ? weight : 0);
    const unsigned beyond = __ballot_sync(0xffffffffu, up_to > place);
    if (beyond) {
      if (lane == __ffs(static_cast<int>(beyond)) - 1) *choice = i;
      return;
    }
    running = __shfl_sync(0xffffffffu, up_to, 31);
    ties -= min(ties, static_cast<Sum>(__popc(tied)));
  }
}

template <class T>
__global__ void __launch_bounds__(threads, 1)
    sample_kernel(int32_t *tokens, int32_t *positions, uint32_t *scratch, const T *logits, const int32_t *seeds, int S,
                  int V, int Vp, float temperature, int top_k, float top_p) {
  wait_for_previous_kernel();
  const int b = blockIdx.x, position = positions[b];
  if (position < 0 || position >= S) return;
  // All have read it before it changes.
  __syncthreads();
  if (threadIdx.x == 0) positions[b] = position + 1;
  int32_t *choice = tokens + static_cast<int64_t>(b) * (S + 1) + position + 1;
  const T *row = logits + static_cast<int64_t>(b) * Vp;

  bool diverged = false;
  Sum likeliest = 0;  // its rank, then its index counted from the end
  each_logit(row, V, [&](int i, float value) {
    diverged |= !isfinite(value);
    likeliest = max(likeliest, static_cast<Sum>(rank_of(value)) << 32 | static_cast<uint32_t>(~i));
  });
  diverged = __syncthreads_or(diverged);
  const int first = static_cast<int>(~static_cast<uint32_t>(block_max(likeliest)));
  if (diverged || temperature == 0) {
    if (threadIdx.x == 0) *choice = diverged ? -1 : first;
    return;
  }

  uint32_t *weights = scratch + static_cast<int64_t>(b) * V;
  const float largest = to_float(row[first]);
  each_logit(row, V, [&](int i, float value) {
    weights[i] = static_cast<uint32_t>(expf((value - largest) / temperature) * 0x1p31f + 0.5f);
  });
  __syncthreads();
  // Of the weights 0 any number may be kept.
  Cut cut{0, 0};
  if (top_k > 0 && top_k < V) {
    cut = cut_at(weights, V, static_cast<Sum>(top_k), [](uint32_t) { return Sum{1}; });
  }
  Sum total = sum_of_kept(weights, V, cut);
  if (top_p < 1) {
    const auto target = static_cast<Sum>(ceil(static_cast<double>(top_p) * static_cast<double>(total)));
    cut = cut_at(weights, V, max(target, Sum{1}), [](uint32_t weight) { return Sum{weight}; });
    total = sum_of_kept(weights, V, cut);
  }
  find(choice, weights, V, cut, __umul64hi(chance_of(seeds[b], position), total));
}

}  // namespace

int64_t ops::sample_scratch(const gpt2_context &, int B, int V) {
  Scratch scratch;
  scratch.take<uint32_t>(static_cast<int64_t>(B) * V);
  return scratch.bytes();
}

int ops::sample(gpt2_context &context, int32_t *tokens, int32_t *positions, const void *logits, const int32_t *seeds,
                int B, int S, int V, int Vp, float temperature, int top_k, float top_p) {
  CudaContext &own = cuda(context);
  auto *scratch = Scratch(own.workspace).take<uint32_t>(static_cast<int64_t>(B) * V);
  with_element_type(own, [&](auto element) {
    using T = decltype(element);
    launch_overlapping(own, sample_kernel<T>, B, threads, 0, tokens, positions, scratch, static_cast<const T *>(logits),
                       seeds, S, V, Vp, temperature, top_k, top_p);
  });
  return GPT2_LAUNCHED(context, "gpt2_sample");
}

}  // namespace gpt2
