// Token and position embedding, forward: for a batch, and for the new positions of a growing text.
// embedding-backward.cu has the gradients.
#include "common/device.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;

template <class T>
__global__ void __launch_bounds__(threads) forward_kernel(T *out, const int32_t *tokens, const T *wte, const T *wpe,
                                                          int64_t packs, int T_, int C, int V_, bool vectors) {
  constexpr int V = vector_size<T>;
  const int width = vectors ? C / V : C;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= packs) return;
  const int64_t row = i / width;
  const int column = static_cast<int>(i % width);
  const int token = tokens[row];
  const bool exists = token >= 0 && token < V_;
  const int64_t word = static_cast<int64_t>(exists ? token : 0) * C, position = row % T_ * C;
  if (vectors) {
    float a[V], b[V] = {};
    load(a, wte + word + column * V);
    if (wpe) load(b, wpe + position + column * V);
#pragma unroll
    for (int j = 0; j < V; j++) a[j] = exists ? a[j] + b[j] : NAN;
    store(out + row * C + column * V, a);
  } else {
    const float sum = to_float(wte[word + column]) + (wpe ? to_float(wpe[position + column]) : 0.0f);
    out[row * C + column] = from_float<T>(exists ? sum : NAN);
  }
}

// A block per row.
template <class T>
__global__ void __launch_bounds__(threads) forward_at_kernel(T *out, const int32_t *texts, const int32_t *positions,
                                                             const T *wte, const T *wpe, int T_, int S, int C, int V_) {
  wait_for_previous_kernel();
  const int b = blockIdx.x / T_, first = positions[b], at = first + blockIdx.x % T_;
  const bool fits = first >= 0 && first <= S - T_;
  const int token = fits ? texts[static_cast<int64_t>(b) * (S + 1) + at] : -1;
  const bool exists = token >= 0 && token < V_;
  for (int c = threadIdx.x; c < C; c += threads) {
    float sum = NAN;
    if (exists) {
      sum = to_float(wte[static_cast<int64_t>(token) * C + c]);
      if (wpe) sum += to_float(wpe[static_cast<int64_t>(at) * C + c]);
    }
    out[static_cast<int64_t>(blockIdx.x) * C + c] = from_float<T>(sum);
  }
}

}  // namespace

int ops::embedding_forward(gpt2_context &context, void *out, const int32_t *tokens, const int32_t *texts,
                           const int32_t *positions, const void *wte, const void *wpe, int B, int T, int S, int C,
                           int V) {
  CudaContext &gpu = cuda(context);
  const int64_t rows = static_cast<int64_t>(B) * T;
  with_element_type(gpu, [&](auto element) {
    using E = decltype(element);
    auto *y = static_cast<E *>(out);
    auto *words = static_cast<const E *>(wte), *places = static_cast<const E *>(wpe);
    if (positions) {
      launch_overlapping(gpu, forward_at_kernel<E>, rows, threads, 0, y, texts, positions, words, places, T, S, C, V);
      return;
    }
    const bool vectors = C % vector_size<E> == 0 && on_16_bytes(y, words, places);
    const int64_t packs = rows * C / (vectors ? vector_size<E> : 1);
    forward_kernel<<<static_cast<unsigned>(ceil_divide(packs, threads)), threads, 0, gpu.stream>>>(
        y, tokens, words, places, packs, T, C, V, vectors);
  });
  return GPT2_LAUNCHED(context, "gpt2_embedding_forward");
}

}  // namespace gpt2
