// Token and position embedding, forward: of a batch, or of the new positions of a text that grows by new tokens.
#include "common/device.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;

// A thread writes V adjacent columns of a row of `out`. `ids` is tokens [B,T], or texts [B,S+1] if `positions` is set.
template <class T, int V>
__global__ void __launch_bounds__(threads)
    forward_kernel(T *out, const int32_t *ids, const int32_t *positions, const T *wte, const T *wpe, int64_t packs,
                   int T_, int S, int C, int vocabulary) {
  wait_for_previous_kernel();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= packs) return;
  const int width = C / V, row = static_cast<int>(i / width), column = static_cast<int>(i % width) * V;
  const int b = row / T_, first = positions ? positions[b] : 0, at = first + row % T_;
  const bool fits = first >= 0 && first <= S - T_;
  const int token = fits ? ids[static_cast<int64_t>(b) * (positions ? S + 1 : T_) + at] : -1;
  const bool exists = token >= 0 && token < vocabulary;
  float sum[V] = {}, position[V] = {};
  if (exists) load(sum, wte + static_cast<int64_t>(token) * C + column);
  if (exists && wpe) load(position, wpe + static_cast<int64_t>(at) * C + column);
#pragma unroll
  for (int j = 0; j < V; j++) sum[j] = exists ? sum[j] + position[j] : NAN;
  store(out + static_cast<int64_t>(row) * C + column, sum);
}

}  // namespace

void ops::embedding_forward(Context &gpu, void *out, const int32_t *tokens, const int32_t *texts,
                            const int32_t *positions, const void *wte, const void *wpe, int B, int T, int S, int C,
                            int V) {
  const int64_t count = static_cast<int64_t>(B) * T * C;
  with_element_type(gpu, [&](auto element) {
    using E = decltype(element);
    auto *y = static_cast<E *>(out);
    auto *words = static_cast<const E *>(wte), *places = static_cast<const E *>(wpe);
    with_vectors<E>(
        C,
        [&](auto width) {
          launch_overlapping(gpu, forward_kernel<E, width>, ceil_divide(count / width, threads), threads, 0, y,
                             positions ? texts : tokens, positions, words, places, count / width, T, S, C, V);
        },
        y, words, places);
  });
}

}  // namespace gpt2
