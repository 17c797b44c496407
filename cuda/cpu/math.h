// exp, GELU, a dot product and loops over lines, written so that compilers vectorise them. The error of exp is under
// 1.5 units in the last place over the whole range.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace gpt2 {

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The bits of a float in bf16, rounded to nearest, ties to even.
static inline uint32_t bf16_of(float value) {
  const uint32_t bits = bits_of(value);
  return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2, and e^r by its Taylor polynomial of degree 7. Below -87 the
// result is 0, above 88.7 infinity; NaN stays NaN.
static inline float exponential(float x) {
  const float low = -87.0f;
  const float high = 88.8f;
  // Uses masks, because with ?: GCC would compile several copies of the computation below.
  const uint32_t is_low = -static_cast<uint32_t>(x < low), is_high = -static_cast<uint32_t>(x > high);
  const float clamped = float_of(bits_of(x) & ~(is_low | is_high));
  // Adding 1.5 * 2^23 rounds to an integer, to nearest even, because no bits are left for a fraction; the sum's low
  // bits hold the integer. For NaN the factors below are arbitrary, but the result is NaN.
  const float round = 12582912.0f;
  const float sum = clamped * 1.44269504f + round;
  const float n = sum - round;
  // ln 2 in two parts; the first has so few bits that n times it is exact.
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float e = 1.0f / 5040;
  e = e * r + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r * r + r + 1.0f;
  // 2^n through the bits of the exponent, as two factors, because 2^128 does not fit into one float.
  const int32_t exponent = static_cast<int32_t>(bits_of(sum) - 0x4b400000u);
  const int32_t half = exponent >> 1;
  const uint32_t bits1 = (static_cast<uint32_t>(half + 127) << 23 & ~is_low) | (is_high & 0x7f800000u);
  const uint32_t bits2 = static_cast<uint32_t>(exponent - half + 127) << 23;
  return e * float_of(bits1) * float_of(bits2);
}

// The derivative by x of c = cap * x / sqrt(x^2 + cap^2), computed from c. Rounding may put c above the cap.
static inline float softcap_slope(float c, float cap) {
  const float share = std::max(1.0f - c / cap * (c / cap), 0.0f);
  return share * std::sqrt(share);
}

static inline float dot(const float *a, const float *b, int count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

// GELU with tanh. Since 0.5 (1 + tanh u) = 1 / (1 + e^-2u), GELU is x * sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715
// x^3), which keeps the relative precision where tanh is close to -1.
constexpr float gelu_twice_root = 1.5957691216f;  // 2 sqrt(2/pi)
constexpr float gelu_cubic = 0.044715f;

static inline float gelu_sigmoid(float x) {
  return 1.0f / (1.0f + exponential(-gelu_twice_root * (x + gelu_cubic * x * x * x)));
}

// The separate op and the op fused into a matmul call this loop, so that both have the same bits.
static inline void gelu_line(float *out, const float *in, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) out[i] = in[i] * gelu_sigmoid(in[i]);
}

// The derivative of GELU: d/dx x s(2u) = s + x s (1 - s) 2u', with s the sigmoid.
static inline float gelu_slope(float x) {
  const float s = gelu_sigmoid(x);
  return s + x * s * (1.0f - s) * gelu_twice_root * (1.0f + 3.0f * gelu_cubic * x * x);
}

static inline void gelu_backward_line(float *din, const float *dout, const float *in, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) din[i] = dout[i] * gelu_slope(in[i]);
}

static inline void relu_squared_line(float *out, const float *in, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) out[i] = in[i] < 0 ? 0 : in[i] * in[i];
}

static inline void add_line(float *out, const float *a, const float *b, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) out[i] = a[i] + b[i];
}

}  // namespace gpt2
