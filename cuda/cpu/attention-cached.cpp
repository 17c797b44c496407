// Causal attention of new positions over a cache of keys and values, for generation. A thread takes whole heads.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

// out [HS] = softmax(q keys^T * scale) values: q [HS], keys and values [count,HS], scores [count] as scratch.
void attend(float *__restrict out, float *__restrict scores, const float *q, const float *keys, const float *values,
            int count, int HS, float scale) {
  float largest = -INFINITY;
  for (int u = 0; u < count; u++) {
    scores[u] = dot(q, keys + static_cast<size_t>(u) * HS, HS) * scale;
    largest = std::max(largest, scores[u]);
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int u = 0; u < count; u++) {
    scores[u] = exponential(scores[u] - largest);
    sum += scores[u];
  }
  for (int i = 0; i < HS; i++) out[i] = 0;
  for (int u = 0; u < count; u++) {
    const float share = scores[u] / sum;
    const float *__restrict value = values + static_cast<size_t>(u) * HS;
    for (int i = 0; i < HS; i++) out[i] += share * value[i];
  }
}

}  // namespace

// Floats of scratch: a row of S scores for each thread.
int64_t attention_cached_scratch(int threads, int S) { return static_cast<int64_t>(threads) * S; }

void attention_cached_forward(Task task, float *out, float *keys, float *values, const float *qkv,
                              const int32_t *positions, int B, int T, int S, int C, int NH, int window) {
  const int HS = C / NH;
  const size_t head_bytes = HS * sizeof(float);
  const float scale = 1.0f / std::sqrt(static_cast<float>(HS));
  task.pool.each_free(B * NH, [&](int64_t bh, int thread) {
    const int b = bh / NH, h = bh % NH;
    const int first = positions[b];
    const bool fits = first >= 0 && first <= S - T;
    const float *q = qkv + static_cast<size_t>(b) * T * 3 * C + static_cast<size_t>(h) * HS;
    float *o = out + static_cast<size_t>(b) * T * C + static_cast<size_t>(h) * HS;
    float *k = keys + static_cast<size_t>(bh) * S * HS, *v = values + static_cast<size_t>(bh) * S * HS;
    float *scores = task.scratch + static_cast<size_t>(thread) * S;
    for (int t = 0; t < T; t++, q += 3 * C, o += C) {
      if (!fits) {
        std::fill(o, o + HS, NAN);
        continue;
      }
      const size_t at = static_cast<size_t>(first + t) * HS;
      std::memcpy(k + at, q + C, head_bytes);
      std::memcpy(v + at, q + 2 * C, head_bytes);
      const int count = window > 0 ? std::min(window, first + t + 1) : first + t + 1;
      const size_t from = static_cast<size_t>(first + t + 1 - count) * HS;
      attend(o, scores, q, k + from, v + from, count, HS, scale);
    }
  });
}

}  // namespace gpt2::GPT2_PATH
