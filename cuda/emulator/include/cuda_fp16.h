#pragma once

#include "narrow-float.h"

namespace gpt2_emulator {

inline float fp16_to_float(unsigned short bits) {
  const int sign = bits >> 15 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? ldexpf(float(1024 + fraction), exponent - 25) : ldexpf(float(fraction), -24));
}
// To nearest, ties to even.
inline unsigned short float_to_fp16(float value) {
  const unsigned short sign = __float_as_uint(value) >> 16 & 0x8000;
  const float size = fabsf(value);
  if (value != value) return 0x7fff;
  if (size >= 65520.0f) return sign | 0x7c00;
  int exponent = 0;
  frexpf(size, &exponent);
  // The exponent of a unit in the last place: at least -24, the unit of the smallest normal number.
  const int unit = size == 0 || exponent - 11 < -24 ? -24 : exponent - 11;
  const unsigned count = unsigned(rintf(ldexpf(size, -unit)));
  // 1024 units and more carry into the exponent.
  return static_cast<unsigned short>(sign | (unsigned(unit + 24) * 1024 + count));
}

}  // namespace gpt2_emulator

GPT2_NARROW_FLOAT(__half, gpt2_emulator::fp16_to_float, gpt2_emulator::float_to_fp16)
using half = __half;
using half2 = __half2;

inline float __half2float(__half value) { return value; }
inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline float2 __half22float2(__half2 value) { return {value.x, value.y}; }
inline __half2 __float22half2_rn(float2 value) { return {value.x, value.y}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half value) { return {value, value}; }
inline float __low2float(__half2 value) { return value.x; }
inline float __high2float(__half2 value) { return value.y; }
