// AdamW with decoupled weight decay: one pass that reads master, m, v, gradient and writes master, m, v. Memory limits
// the pass: d12 on 2 cores takes 73 ms with a prefetch 2 KiB ahead, 86 without, and 96 to 120 with streaming stores.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../gpt2.h"
#include "kernels.h"

namespace gpt2::GPT2_PATH {

// Divides by a constant without a division. Results are rounded as by division (Markstein), except under 1e-30, where
// eps hides the error. With divisions, AdamW on a Xeon did not reach the memory's bandwidth (benchmarks/cpu.md).
struct Divisor {
  float value, inverse;

  explicit Divisor(float divisor) : value(divisor), inverse(1.0f / divisor) {}
  float divide(float number) const {
#if defined(__FMA__) || defined(__aarch64__)
    const float quotient = number * inverse;
    return __builtin_fmaf(__builtin_fmaf(-quotient, value, number), inverse, quotient);
#else
    return number / value;
#endif
  }
};

void adamw(Task task, float *weight, float *master, float *m, float *v, const float *gradient, const float *step,
           int64_t count, int first_scalar, float rate, float beta1, float beta2, float eps, float weight_decay) {
  if (step[GPT2_STEP_UPDATED] == 0) return;
  const float learning_rate = rate * step[GPT2_STEP_LEARNING_RATE], clip = step[GPT2_STEP_CLIP];
  const Divisor beta1_correction(step[first_scalar]), beta2_correction(step[first_scalar + 1]);
  // Captures by value: with references the compiler would assume that stores through the pointers change the values.
  const auto update_range = [=](int64_t first, int64_t last) {
    constexpr int64_t piece = 64, ahead = 512;
    for (int64_t begin = first; begin < last; begin += piece) {
      for (int64_t i = begin + ahead; i < begin + ahead + piece; i += 16) {
        for (const float *array : {static_cast<const float *>(master), static_cast<const float *>(m),
                                   static_cast<const float *>(v), gradient}) {
          __builtin_prefetch(array + i);
        }
      }
#pragma omp simd
      for (int64_t i = begin; i < std::min(begin + piece, last); i++) {
        const float g = gradient[i] * clip;
        m[i] = beta1 * m[i] + (1.0f - beta1) * g;
        v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
        const float update = beta1_correction.divide(m[i]) / (std::sqrt(beta2_correction.divide(v[i])) + eps);
        master[i] -= learning_rate * (update + weight_decay * master[i]);
      }
    }
  };
  task.pool.ranges(count, update_range, 1 << 14);
  if (weight != master) std::memcpy(weight, master, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace gpt2::GPT2_PATH
