// Cross-entropy of rows of logits, one block per row, which is read from memory once, in 16-byte packs, and kept in shared memory as far
// as it fits. ELEMENT is float or __nv_bfloat16.
#include <cfloat>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

using element = ELEMENT;

constexpr int threads = 1024;  // of a block
constexpr int warps = threads / 32;
constexpr int width = 16 / sizeof(element);  // elements of 16 bytes

// WIDTH neighbouring elements, which one instruction reads or writes.
template <int WIDTH>
struct alignas(WIDTH * sizeof(element)) Pack {
  element values[WIDTH];
  __device__ float operator[](int j) const { return static_cast<float>(values[j]); }
};

__device__ bool is_aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// The largest of some logits, and the sum of exp(logit - largest). Without logits: -FLT_MAX, the lowest finite number, and 0.
struct Softmax {
  float largest, sum;

  // Takes in other logits. A sum that was relative to a smaller maximum is scaled down.
  __device__ void join(Softmax other) {
    const float most = fmaxf(largest, other.largest);
    sum = sum * __expf(largest - most) + other.sum * __expf(other.largest - most);
    largest = most;
  }
};

// Joins all threads' results: shuffles in each warp, then the warps' results in their order. Every thread gets the whole.
__device__ Softmax joined(Softmax own, Softmax *of_warps) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    Softmax other;
    other.largest = __shfl_down_sync(0xffffffffu, own.largest, lanes);
    other.sum = __shfl_down_sync(0xffffffffu, own.sum, lanes);
    own.join(other);
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
  __syncthreads();
  Softmax all = of_warps[0];
  for (int warp = 1; warp < warps; warp++) all.join(of_warps[warp]);
  return all;
}

// Takes in the first `columns` logits of a pack, with its own maximum first: the sum is scaled down once for all of them.
template <int WIDTH>
__device__ void take(Softmax &own, const Pack<WIDTH> &pack, int columns) {
  Softmax of_pack{own.largest, 0};
  for (int j = 0; j < WIDTH; j++) of_pack.largest = fmaxf(of_pack.largest, j < columns ? pack[j] : -FLT_MAX);
  for (int j = 0; j < WIDTH; j++) of_pack.sum += j < columns ? __expf(pack[j] - of_pack.largest) : 0;
  own.sum = own.sum * __expf(own.largest - of_pack.largest) + of_pack.sum;
  own.largest = of_pack.largest;
}

// The first pass over a row, which leaves its first `most_kept` packs in `kept`. All their copies are on their way before any is waited
// for.
template <int WIDTH>
__device__ Softmax read_row(const element *x, Pack<WIDTH> *kept, int most_kept, int V) {
  const auto *row = reinterpret_cast<const Pack<WIDTH> *>(x);
  const int packs = (V + WIDTH - 1) / WIDTH;
  for (int p = threadIdx.x; p < min(packs, most_kept); p += threads) {
    if constexpr (WIDTH == width) __pipeline_memcpy_async(&kept[p], &row[p], sizeof(Pack<WIDTH>));
    else kept[p] = row[p];
  }
  __pipeline_commit();
  Softmax own{-FLT_MAX, 0};
  const auto take_pack = [&](Pack<WIDTH> pack, int p) {
    if ((p + 1) * WIDTH <= V) take(own, pack, WIDTH);
    else take(own, pack, V - p * WIDTH);
  };
  for (int p = most_kept + threadIdx.x; p < packs; p += threads) take_pack(row[p], p);
  __pipeline_wait_prior(0);
  for (int p = threadIdx.x; p < min(packs, most_kept); p += threads) take_pack(kept[p], p);
  return own;
}

// The loss, and a row's factor, for a target outside the vocabulary.
__device__ float missing(int target) { return target == -1 ? 0 : nanf(""); }

// The second pass. A thread reads back from `kept` only what it wrote there.
template <int WIDTH>
__device__ void write_row(element *d, const element *x, const Pack<WIDTH> *kept, int most_kept, Softmax all, int target,
                          int V, int Vp, float dloss) {
  const float factor = target >= 0 && target < V ? dloss : missing(target), scale = factor / all.sum;
#pragma unroll 2
  for (int p = threadIdx.x; p < Vp / WIDTH; p += threads) {
    const bool is_kept = p < most_kept && p * WIDTH < V;
    Pack<WIDTH> pack = is_kept ? kept[p] : reinterpret_cast<const Pack<WIDTH> *>(x)[p];
    const bool is_whole = (p + 1) * WIDTH <= V, has_target = p == target / WIDTH;
    float results[WIDTH];
    for (int j = 0; j < WIDTH; j++) results[j] = __expf(pack[j] - all.largest) * scale;
    // Few packs of a row need this, so a whole pack is checked at once, not each element.
    if (!is_whole || has_target) {
      for (int j = 0; j < WIDTH; j++) {
        const int v = p * WIDTH + j;
        results[j] = v < V ? results[j] - (v == target ? factor : 0) : 0;
      }
    }
    for (int j = 0; j < WIDTH; j++) pack.values[j] = static_cast<element>(results[j]);
    reinterpret_cast<Pack<WIDTH> *>(d)[p] = pack;
  }
}

template <int WIDTH>
__device__ void whole_row(float *loss, element *d, const element *x, int target, void *memory, int kept_bytes,
                          Softmax *of_warps, int V, int Vp, float dloss) {
  auto *kept = static_cast<Pack<WIDTH> *>(memory);
  const int most_kept = kept_bytes / static_cast<int>(sizeof(Pack<WIDTH>));
  // Before other threads write the gradient in its place.
  const bool exists = target >= 0 && target < V;
  const float of_target = exists ? static_cast<float>(x[target]) : missing(target);
  const Softmax all = joined(read_row<WIDTH>(x, kept, most_kept, V), of_warps);
  if (threadIdx.x == 0) *loss = exists ? logf(all.sum) + all.largest - of_target : of_target;
  if (d) write_row<WIDTH>(d, x, kept, most_kept, all, target, V, Vp, dloss);
}

// losses[i] = -log softmax(logits[i])[targets[i]] over the first V of Vp columns; dlogits = (softmax - onehot) * dloss, 0 from column
// V on, or NULL; all 0 where the target is -1. dlogits may be logits: each element is read by the thread that writes it, and the target's before that.
__global__ void __launch_bounds__(threads, 2)
    cross_entropy(float *losses, element *dlogits, const element *logits, const int *targets, int V, int Vp, float dloss,
                  int kept_bytes) {
  extern __shared__ float4 kept[];
  __shared__ Softmax of_warps[warps];
  const size_t first = static_cast<size_t>(blockIdx.x) * Vp;
  element *d = dlogits ? dlogits + first : nullptr;
  const int target = targets[blockIdx.x];
  float *loss = losses + blockIdx.x;
  if (Vp % width == 0 && is_aligned(logits) && is_aligned(dlogits)) {
    whole_row<width>(loss, d, logits + first, target, kept, kept_bytes, of_warps, V, Vp, dloss);
  } else {
    whole_row<1>(loss, d, logits + first, target, kept, kept_bytes, of_warps, V, Vp, dloss);
  }
}
