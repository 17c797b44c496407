// RMSNorm of each head's q and k, and their rotation by position; the mix of v with a value embedding.
#include <algorithm>
#include <cmath>

#include "factor-sums.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

void qk_norm_rotary_forward(Task task, float *qkv, float *rstd, float *values, const float *rotations,
                            const int32_t *positions, const float *value_factors, const float *embedded, int B, int T,
                            int S, int C, int NH, float eps, float query_factor) {
  const int HS = C / NH, half = HS / 2;
  task.pool.each(B * T, [&](int64_t row) {
    const int64_t t = row % T, position = (positions ? positions[row / T] : 0) + t;
    const bool fits = position >= 0 && position <= S - T + t;
    for (int h = 0; h < 2 * NH; h++) {  // q's heads, then k's
      float *x = qkv + static_cast<size_t>(row) * 3 * C + static_cast<size_t>(h) * HS;
      const float r = rstd ? 1.0f / std::sqrt(dot(x, x, HS) / HS + eps) : 1.0f;
      if (rstd) rstd[row * 2 * NH + h] = r;
      if (!fits) {
        std::fill(x, x + HS, NAN);
        continue;
      }
      const float factor = h < NH ? r * query_factor : r;
      const float *cosines = rotations + position * HS, *sines = cosines + half;
#pragma omp simd
      for (int i = 0; i < half; i++) {
        const float a = x[i] * factor, b = x[i + half] * factor;
        x[i] = a * cosines[i] + b * sines[i];
        x[i + half] = b * cosines[i] - a * sines[i];
      }
    }
    if (!value_factors) return;
    const size_t at = static_cast<size_t>(row) * C;
    float *v = qkv + 3 * at + 2 * C;
    for (int i = 0; i < C; i++) {
      values[at + i] = v[i];
      v[i] = value_factors[0] * v[i] + (embedded ? value_factors[1] * embedded[at + i] : 0);
    }
  });
}

// A rotation is linear and preserves the mean of dy * y, so only the result of RMSNorm's backward is rotated back.
void qk_norm_rotary_backward(Task task, float *dqkv, float *dvalue_factors, float *dembedded, const float *qkv,
                             const float *rstd, const float *rotations, const float *value_factors,
                             const float *values, const float *embedded, int B, int T, int C, int NH,
                             float query_factor, bool accumulate) {
  const int HS = C / NH, half = HS / 2;
  task.pool.each(B * T, [&](int64_t row) {
    const float *cosines = rotations + row % T * HS, *sines = cosines + half;
    for (int h = 0; h < 2 * NH; h++) {
      const size_t at = static_cast<size_t>(row) * 3 * C + static_cast<size_t>(h) * HS;
      const float *y = qkv + at;
      float *d = dqkv + at;
      const float factor = h < NH ? query_factor : 1.0f;
      const float r = rstd ? rstd[row * 2 * NH + h] : 1.0f;
      const float share = rstd ? dot(d, y, HS) / HS / factor : 0.0f;
#pragma omp simd
      for (int i = 0; i < half; i++) {
        const float a = (d[i] * factor - y[i] * share) * r;
        const float b = (d[i + half] * factor - y[i + half] * share) * r;
        d[i] = a * cosines[i] - b * sines[i];
        d[i + half] = b * cosines[i] + a * sines[i];
      }
    }
  });
  if (!value_factors) return;
  factor_sums<2>(task, dvalue_factors, int64_t{B} * T, accumulate, [&](int64_t row, double (&sums)[2]) {
    const size_t at = static_cast<size_t>(row) * C;
    float *dv = dqkv + 3 * at + 2 * C;
    sums[0] += dot(dv, values + at, C);
    if (embedded) sums[1] += dot(dv, embedded + at, C);
    for (int i = 0; i < C; i++) {
      if (embedded) dembedded[at + i] = value_factors[1] * dv[i];
      dv[i] *= value_factors[0];
    }
  });
}

int64_t factors_scratch(int, int K) { return 2 * factor_parts * K; }

}  // namespace gpt2::GPT2_PATH
