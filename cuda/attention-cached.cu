// Causal attention of new positions over a cache of keys and values, for text generation. A block computes one query of
// one head: groups of lanes loop over the cached positions, each group with the online softmax of flash attention (Dao
// et al. 2022) and 16 bytes of keys and values per lane; at the end the groups' results are merged in order. The kernel
// is tuned for a single new token, whose key and value the block itself writes to the cache. If there are several new
// tokens, a separate kernel first writes their keys and values.
#include "common/device.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 512;
// The number of cached positions that a group of lanes loads at a time.
constexpr int unroll = 4;

struct Sizes {
  int T, S, C, NH, HS, window;

  // The first position that the query at `position` attends to.
  __device__ int first_of(int position) const { return window > 0 ? max(0, position + 1 - window) : 0; }
};

// Element offsets of head h of sequence b: in the cache of keys or values [B,NH,S,HS], and at token t in qkv [B,T,3C].
__device__ __forceinline__ int64_t cache_of(const Sizes &sizes, int b, int h) {
  return (static_cast<int64_t>(b) * sizes.NH + h) * sizes.S * sizes.HS;
}
__device__ __forceinline__ int64_t row_of(const Sizes &sizes, int b, int t, int h) {
  return (static_cast<int64_t>(b) * sizes.T + t) * 3 * sizes.C + h * sizes.HS;
}
__device__ __forceinline__ bool fits(const Sizes &sizes, int first) { return first >= 0 && first <= sizes.S - sizes.T; }

template <class T>
__device__ __forceinline__ void append(T *keys, T *values, const T *qkv, const Sizes &sizes, int first, int b, int t,
                                       int h) {
  const int64_t to = cache_of(sizes, b, h) + static_cast<int64_t>(first + t) * sizes.HS;
  const T *from = qkv + row_of(sizes, b, t, h);
  for (int i = threadIdx.x; i < sizes.HS; i += threads) {
    keys[to + i] = from[sizes.C + i];
    values[to + i] = from[2 * sizes.C + i];
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    append_kernel(T *keys, T *values, const T *qkv, const int32_t *positions, Sizes sizes) {
  const int h = blockIdx.x % sizes.NH, t = blockIdx.x / sizes.NH % sizes.T, b = blockIdx.x / sizes.NH / sizes.T;
  const int first = positions[b];
  if (fits(sizes, first)) append(keys, values, qkv, sizes, first, b, t, h);
}

// Loads E elements from `begin` on, of a vector of HS elements; elements past the vector's end are 0.
template <int E, bool VECTOR, class T>
__device__ __forceinline__ void load_share(float (&share)[E], const T *line, int begin, int HS) {
  if constexpr (VECTOR) {
    load(share, line + begin);
  } else {
#pragma unroll
    for (int j = 0; j < E; j++) share[j] = begin + j < HS ? to_float(line[begin + j]) : 0.0f;
  }
}

// A group of GROUP lanes computes the dot product of the query and one cached key; a lane holds E of the HS elements.
template <int GROUP, int E, bool VECTOR, class T>
__global__ void __launch_bounds__(threads)
    attend_kernel(T *out, T *keys, T *values, const T *qkv, const int32_t *positions, Sizes sizes, float scale) {
  constexpr int groups = threads / GROUP, warps = threads / 32;
  __shared__ float parts[warps][GROUP * E], maxima[warps], sums[warps];
  const int h = blockIdx.x % sizes.NH, t = blockIdx.x / sizes.NH % sizes.T, b = blockIdx.x / sizes.NH / sizes.T;
  const int HS = sizes.HS, group = threadIdx.x / GROUP;
  const T *k = keys + cache_of(sizes, b, h), *v = values + cache_of(sizes, b, h);
  release_next_kernel();
  // Before the wait, `positions` may be out of date. This read only bounds prefetches (docs/programmatic-launch.md).
  const int last = min(positions[b] + t, sizes.S);
  for (int at = sizes.first_of(last) + group; at < last; at += groups) {
    if (threadIdx.x % GROUP == 0) prefetch_to_l2(k + static_cast<int64_t>(at) * HS);
    if (threadIdx.x % GROUP == 1) prefetch_to_l2(v + static_cast<int64_t>(at) * HS);
  }
  wait_for_previous_kernel();
  const int first = positions[b];
  T *o = out + (static_cast<int64_t>(b) * sizes.T + t) * sizes.C + h * HS;
  if (!fits(sizes, first)) {
    for (int i = threadIdx.x; i < HS; i += threads) o[i] = from_float<T>(NAN);
    return;
  }
  if (sizes.T == 1) {
    append(keys, values, qkv, sizes, first, b, t, h);
    __syncthreads();
  }

  const int begin = threadIdx.x % GROUP * E, seen = sizes.first_of(first + t), count = first + t + 1 - seen;
  k += static_cast<int64_t>(seen) * HS;
  v += static_cast<int64_t>(seen) * HS;
  float q[E], sum = 0, maximum = -INFINITY, part[E] = {};
  load_share<E, VECTOR>(q, qkv + row_of(sizes, b, t, h), begin, HS);
  // All groups run the same number of iterations, because the shuffles below need all lanes of a warp.
  for (int turn = 0; turn < count; turn += groups * unroll) {
    float key[unroll][E], value[unroll][E], score[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) {
      const int at = turn + u * groups + group;
      const int64_t line = static_cast<int64_t>(at < count ? at : count - 1) * HS;
      load_share<E, VECTOR>(key[u], k + line, begin, HS);
      load_share<E, VECTOR>(value[u], v + line, begin, HS);
    }
    float top = maximum;
#pragma unroll
    for (int u = 0; u < unroll; u++) {
      float product = 0;
#pragma unroll
      for (int j = 0; j < E; j++) product += q[j] * key[u][j];
#pragma unroll
      for (int offset = GROUP / 2; offset > 0; offset /= 2) product += __shfl_xor_sync(0xffffffffu, product, offset);
      score[u] = turn + u * groups + group < count ? product * scale : -INFINITY;
      top = fmaxf(top, score[u]);
    }
    // If the group has had no position so far, both maxima are -inf, and their difference would be NaN.
    const float shrink = top == -INFINITY ? 1.0f : expf(maximum - top);
    maximum = top;
    sum *= shrink;
#pragma unroll
    for (int j = 0; j < E; j++) part[j] *= shrink;
#pragma unroll
    for (int u = 0; u < unroll; u++) {
      const float weight = score[u] == -INFINITY ? 0.0f : expf(score[u] - top);
      sum += weight;
#pragma unroll
      for (int j = 0; j < E; j++) part[j] += weight * value[u][j];
    }
  }

  // Merges the partial softmax results of each warp's groups, then of the warps.
#pragma unroll
  for (int offset = GROUP; offset < 32; offset *= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, maximum, offset), top = fmaxf(maximum, other);
    const float factor = top == -INFINITY ? 0.0f : expf(maximum - top);
    maximum = top;
    sum *= factor;
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
#pragma unroll
    for (int j = 0; j < E; j++) {
      part[j] *= factor;
      part[j] += __shfl_xor_sync(0xffffffffu, part[j], offset);
    }
  }
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 < GROUP) {
#pragma unroll
    for (int j = 0; j < E; j++) parts[warp][begin + j] = part[j];
    maxima[warp] = maximum;
    sums[warp] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= HS) return;
  float top = -INFINITY;
#pragma unroll
  for (int w = 0; w < warps; w++) top = fmaxf(top, maxima[w]);
  float total = 0, result = 0;
#pragma unroll
  for (int w = 0; w < warps; w++) {
    const float factor = expf(maxima[w] - top);
    total += sums[w] * factor;
    result += parts[w][threadIdx.x] * factor;
  }
  o[threadIdx.x] = from_float<T>(result / total);
}

}  // namespace

int64_t ops::attention_cached_scratch(const Context &, int) { return 0; }

void ops::attention_cached_forward(Context &gpu, void *out, void *keys, void *values, const void *qkv,
                                   const int32_t *positions, int B, int T, int S, int C, int NH, int window) {
  const Sizes sizes{T, S, C, NH, C / NH, window};
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  const int64_t blocks = static_cast<int64_t>(B) * T * NH;
  with_element_type(gpu, [&](auto element) {
    using E = decltype(element);
    auto *o = static_cast<E *>(out), *k = static_cast<E *>(keys), *v = static_cast<E *>(values);
    auto *x = static_cast<const E *>(qkv);
    if (T > 1) {
      append_kernel<<<static_cast<unsigned>(blocks), threads, 0, gpu.stream>>>(k, v, x, positions, sizes);
    }
    const auto attend = [&](auto *kernel) {
      launch_overlapping(gpu, kernel, blocks, threads, 0, o, k, v, x, positions, sizes, scale);
    };
    constexpr int V = vector_size<E>;
    if (sizes.HS == 64 && on_16_bytes(k, v, x)) {
      attend(attend_kernel<64 / V, V, true, E>);
    } else {
      attend(attend_kernel<32, 8, false, E>);
    }
  });
}

}  // namespace gpt2
