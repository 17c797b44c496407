// FP8 and its scales, as gpt2.h defines them: values and scales equal the GPU's (common/fp8.cuh) bit for bit, norms
// within rounding. Functions are static, because each code path compiles them with other instructions.
#pragma once

#include "../common/fp8-numbers.h"
#include "../gpt2.h"
#include "kernels.h"
#include "math.h"

namespace gpt2 {

// E4M3's exponent bias is 120 less than fp32's, its fraction 20 bits shorter. Below 2^-6, E4M3 has multiples of 2^-9.
static inline float from_e4m3(uint8_t bits) {
  const uint32_t size = bits & 0x7f;
  const float value = size < 8 ? size * 0x1p-9f : float_of((size << 20) + 0x3c000000);
  const float with_nan = size == 0x7f ? float_of(0x7fc00000) : value;
  return bits & 0x80 ? -with_nan : with_nan;
}

static inline uint8_t to_e4m3(float value) {
  const uint32_t bits = bits_of(value), size = bits & 0x7fffffff;
  const uint32_t normal = (size - 0x3c000000 + 0x7ffff + ((size >> 20) & 1)) >> 20;
  // In fp32 a unit in the last place of 2^14 is 2^-9, so the low bits of the sum count multiples of 2^-9.
  const uint32_t subnormal = bits_of(float_of(size) + 0x1p14f) & 0xf;
  const uint32_t number = size < 0x3c800000 ? subnormal : std::min(normal, 0x7eu);
  return static_cast<uint8_t>(size > 0x7f800000 ? 0x7f : number | (bits >> 24 & 0x80));
}

// Rounds a number, at least 0, to E5M2. Numbers over 57344, the largest in E5M2, become 57344. Below 2^-14, E5M2 has
// multiples of 2^-16.
static inline float rounded_to_e5m2(float value) {
  if (value < 0x1p-14f) return value + 0x1p7f - 0x1p7f;
  const uint32_t bits = bits_of(value);
  return std::min(float_of((bits + 0xfffff + (bits >> 21 & 1)) & ~0x1fffffu), e5m2_largest);
}

// The smallest power of two, at least 2^-126, with which `largest` / scale is at most 448 = 1.75 * 2^8: the exponent is
// rounded up where the fraction exceeds 0.75. Infinity and NaN of either sign give 2^120.
static inline float fp8_scale(float largest) {
  const uint32_t exponent = (std::min(bits_of(largest) & 0x7fffffff, 0x7f800000u) + 0x1fffff) >> 23;
  return float_of((exponent > 9 ? exponent - 8 : 1) << 23);
}

// 1 / scale, exactly.
static inline float inverse_of(float scale) { return float_of((254u << 23) - bits_of(scale)); }

static inline float largest_size(const float *values, int count) {
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (int i = 0; i < count; i++) largest = std::max(largest, std::fabs(values[i]));
  return largest;
}

// The sum of squares of values / scale, which does not overflow.
static inline float scaled_square_sum(const float *values, int count, float scale) {
  const float inverse = inverse_of(scale);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; i++) sum += (values[i] * inverse) * (values[i] * inverse);
  return sum;
}

// The upper bound of the norm of a row [C] in FP8, from its scaled_square_sum. Rounding adds less than 1/16 of a
// normal number, and at most 2^-10 scale to a subnormal one.
static inline float fp8_norm(float square_sum, int C, float scale) {
  return scale * (1.0625f * std::sqrt(square_sum) + std::sqrt(static_cast<float>(C)) * 0x1p-10f);
}

// fp8 = values / scale
static inline void quantize(uint8_t *fp8, const float *values, int count, float scale) {
  const float inverse = inverse_of(scale);
  for (int i = 0; i < count; i++) fp8[i] = to_e4m3(values[i] * inverse);
}

// Stores rows [N,C] in FP8, each with the scale that scale_of(row) gives.
template <class Scale>
static inline void quantize_rows(Task task, uint8_t *fp8, float *scale, const float *rows, int N, int C,
                                 const Scale &scale_of) {
  task.pool.each(N, [&](int64_t n) {
    scale[n] = scale_of(n);
    quantize(fp8 + n * C, rows + n * C, C, scale[n]);
  });
}

// Stores rows [N,C] in FP8, each with the scale of its largest element and the upper bound of its norm.
static inline void quantize_rows_and_norms(Task task, uint8_t *fp8, float *scale, float *norm, const float *rows, int N,
                                           int C) {
  quantize_rows(task, fp8, scale, rows, N, C, [&](int64_t n) {
    const float row_scale = fp8_scale(largest_size(rows + n * C, C));
    norm[n] = fp8_norm(scaled_square_sum(rows + n * C, C, row_scale), C, row_scale);
    return row_scale;
  });
}

// Calls line_of(first, c, row) for each group (16 rows of a column) of a columnwise copy of [N,C]: the group's bytes
// begin at `first`, and byte i belongs to column c and row(i). Rows from N on are padding.
template <class Line>
static inline void each_columnwise(Task task, int64_t N, int C, const Line &line_of) {
  constexpr int half = GPT2_FP8_GROUP / 2;
  const int64_t groups = (N + GPT2_FP8_GROUP - 1) / GPT2_FP8_GROUP;
  task.pool.each(groups, [&](int64_t group) {
    for (int c = 0; c < C; c++) {
      line_of((c * groups + group) * GPT2_FP8_GROUP, c,
              [&](int i) { return group * GPT2_FP8_GROUP + i % 2 * half + i / 2; });
    }
  });
}

// Stores a matrix [N,C] columnwise: fp8_of(n, c) is an element in FP8.
template <class Element>
static inline void store_columnwise(Task task, uint8_t *columnwise, int N, int C, const Element &fp8_of) {
  each_columnwise(task, N, C, [&](int64_t first, int c, const auto &row) {
    for (int i = 0; i < GPT2_FP8_GROUP; i++) columnwise[first + i] = row(i) < N ? fp8_of(row(i), c) : 0;
  });
}

}  // namespace gpt2
