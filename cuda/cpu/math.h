// exp as code that a compiler can vectorise. Error under 1.5 units in the last place over the whole range.
#pragma once

#include <cstdint>
#include <cstring>

namespace gpt2 {

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2, and e^r by its Taylor polynomial of degree 7. Below -87 the
// result is 0, above 88.7 infinity; NaN stays NaN.
static inline float exponential(float x) {
  const float low = -87.0f;
  const float high = 88.8f;
  // NaN becomes `low` here and comes back at the end: it has no whole number.
  const float clamped = x > low ? (x < high ? x : high) : low;
  // Adding 1.5 * 2^23 leaves no room for a fraction: the sum is rounded to a whole number, to nearest even.
  const float round = 12582912.0f;
  const float n = (clamped * 1.44269504f + round) - round;
  // ln 2 in two parts, the first with so few bits that n times it is exact.
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float e = 1.0f / 5040;
  e = e * r + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r * r + r + 1.0f;
  // 2^n through the exponent's bits; in two halves, because 2^128 does not fit one factor.
  const int32_t whole = static_cast<int32_t>(n);
  const int32_t half = whole >> 1;
  const int32_t bits1 = (half + 127) << 23;
  const int32_t bits2 = (whole - half + 127) << 23;
  float scale1, scale2;
  std::memcpy(&scale1, &bits1, 4);
  std::memcpy(&scale2, &bits2, 4);
  const float result = e * scale1 * scale2;
  return x < low ? 0.0f : x != x ? x : result;
}

}  // namespace gpt2
