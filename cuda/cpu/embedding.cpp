// Token and position embedding. Backward divides the columns among threads and adds the rows in order, so that repeated
// tokens are summed in the same order at any number of threads.
#include <algorithm>
#include <cmath>

#include "kernels.h"

namespace gpt2::GPT2_PATH {

// The number of elements that take about 20 us. Smaller loops stay on one thread.
static constexpr int64_t FEW_ELEMENTS = 1 << 16;

void embedding_forward(Task task, float *out, const int32_t *tokens, const int32_t *texts, const int32_t *positions,
                       const float *wte, const float *wpe, int B, int T, int S, int C, int V) {
  const int32_t *ids = positions ? texts : tokens;
  const int64_t stride = positions ? S + 1 : T;
  const auto embed = [&](int64_t row) {
    const int64_t b = row / T;
    const int first = positions ? positions[b] : 0, at = first + static_cast<int>(row % T);
    float *o = out + static_cast<size_t>(row) * C;
    const bool fits = first >= 0 && first <= S - T;
    const int32_t id = fits ? ids[b * stride + at] : -1;
    if (id < 0 || id >= V) {
      std::fill(o, o + C, NAN);
      return;
    }
    const float *token = wte + static_cast<size_t>(id) * C;
    const float *position = wpe ? wpe + static_cast<size_t>(at) * C : nullptr;
    for (int c = 0; c < C; c++) o[c] = position ? token[c] + position[c] : token[c];
  };
  task.pool.each(B * T, embed, FEW_ELEMENTS / C + 1);
}

void embedding_backward(Task task, float *dwte, float *dwpe, const float *dout, const int32_t *tokens, int B, int T,
                        int C, int, bool accumulate) {
  // 64 floats are four cache lines: wide enough to stream, narrow enough to divide C = 768 among threads.
  const int slab = 64;
  const auto add_rows = [&](int64_t index) {
    const int first = static_cast<int>(index) * slab;
    const int last = std::min(first + slab, C);
    for (int t = 0; dwpe && !accumulate && t < T; t++) {
      std::fill_n(dwpe + static_cast<size_t>(t) * C + first, last - first, 0.0f);
    }
    for (int row = 0; row < B * T; row++) {
      if (tokens[row] < 0) continue;  // gpt2_classifier passes targets; -1 has no gradient
      const float *d = dout + static_cast<size_t>(row) * C;
      float *token = dwte + static_cast<size_t>(tokens[row]) * C;
      for (int c = first; c < last; c++) token[c] += d[c];
      if (!dwpe) continue;
      float *position = dwpe + static_cast<size_t>(row % T) * C;
      for (int c = first; c < last; c++) position[c] += d[c];
    }
  };
  task.pool.each((C + slab - 1) / slab, add_rows, FEW_ELEMENTS / (slab * B * T) + 1);
}

int64_t embedding_scratch(int, int, int, int, int) { return 0; }

}  // namespace gpt2::GPT2_PATH
