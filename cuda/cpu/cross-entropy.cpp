// Softmax and cross-entropy of rows of logits. The 50,257 terms of a denominator are summed in blocks of 1024 in fp32,
// and the sums of the blocks are added in double.
#include <algorithm>
#include <cmath>

#include "../gpt2.h"
#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

float largest_of(const float *values, int count) {
  float largest = values[0];
  // GCC does not vectorise std::max, which takes references: a row would take 68 us instead of 13.
#pragma omp simd reduction(max : largest)
  for (int j = 0; j < count; j++) largest = values[j] > largest ? values[j] : largest;
  return largest;
}

// The sum over V logits of exp(x - largest). `terms`, unless NULL, receives the exponentials; it may be `x`.
double denominator(float *terms, const float *x, float largest, int V) {
  constexpr int block = 1024;
  double sum = 0;
  float of_block[block];
  for (int first = 0; first < V; first += block) {
    const int count = std::min(block, V - first);
    float *to = terms ? terms + first : of_block, part = 0;
    const float *from = x + first;
#pragma omp simd
    for (int j = 0; j < count; j++) to[j] = exponential(from[j] - largest);
#pragma omp simd reduction(+ : part)
    for (int j = 0; j < count; j++) part += to[j];
    sum += part;
  }
  return sum;
}

}  // namespace

void cross_entropy(Task task, float *losses, float *dlogits, const float *logits, const int32_t *targets, int N, int V,
                   int Vp, float dloss) {
  cross_entropy_capped(task, losses, dlogits, logits, targets, N, V, Vp, dloss, 0, false);
}

void cross_entropy_capped(Task task, float *losses, float *dlogits, const float *logits, const int32_t *targets, int N,
                          int V, int Vp, float dloss, float softcap, bool is_rounded) {
  task.pool.each_free(N, [&](int64_t n, int thread) {
    const float *x = logits + static_cast<size_t>(n) * Vp;
    const int target = targets[n];
    float *row = dlogits ? dlogits + static_cast<size_t>(n) * Vp : nullptr;
    if (target < 0) {
      losses[n] = 0;
      if (row) std::fill_n(row, Vp, 0.0f);
      return;
    }
    // Reads the target's logit first, because the gradient may replace the logits in the same memory.
    const float of_target = x[target], largest = largest_of(x, V);
    // With `is_rounded`, the fp32 gradient stays in scratch, in the thread's caches; only bf16 values go to memory.
    float *d = row && is_rounded ? task.scratch + static_cast<size_t>(thread) * Vp : row;
    const double sum = denominator(softcap > 0 ? nullptr : d, x, largest, V);
    losses[n] = static_cast<float>(std::log(sum) - (static_cast<double>(of_target) - largest));
    if (!d) return;
    const float slope_at_target = softcap > 0 ? softcap_slope(of_target, softcap) : 1.0f;
    const float at_target =
        (exponential(of_target - largest) / static_cast<float>(sum) - 1.0f) * dloss * slope_at_target;
    const float scale = dloss / static_cast<float>(sum);
    if (softcap > 0) {
      for (int j = 0; j < V; j++) d[j] = exponential(x[j] - largest) * scale * softcap_slope(x[j], softcap);
    }
    const float factor = softcap > 0 ? 1.0f : scale;
    if (is_rounded) {
      auto *to = reinterpret_cast<uint16_t *>(row);
#pragma omp simd
      for (int j = 0; j < V; j++) to[j] = static_cast<uint16_t>(bf16_of(d[j] * factor));
      std::fill_n(to + V, Vp - V, uint16_t{0});
      to[target] = static_cast<uint16_t>(bf16_of(at_target));
    } else {
      for (int j = 0; j < V; j++) d[j] *= factor;
      std::fill_n(d + V, Vp - V, 0.0f);
      d[target] = at_target;
    }
  });
}

void add_to_step(float *step, int element, const float *values, int N, float scale, bool accumulate) {
  double sum = 0;
  for (int n = 0; n < N; n++) sum += values[n];
  step[element] = static_cast<float>((accumulate ? step[element] : 0) + sum * scale);
}

void loss_sum(Task, float *step, const float *losses, int N, float scale, bool accumulate) {
  add_to_step(step, GPT2_STEP_LOSS, losses, N, scale, accumulate);
}

}  // namespace gpt2::GPT2_PATH
