// E4M3 and its scales, as gpt2.h defines them under "FP8".
#pragma once

#include <cuda_fp8.h>

#include "device.cuh"

namespace gpt2 {

constexpr float fp8_largest = 448;
// gelu' is below it.
constexpr float largest_gelu_derivative = 1.13f;

// The smallest power of two, at least 2^-126, with which `largest` / scale is at most 448 = 1.75 * 2^8: the exponent is
// rounded up where the fraction exceeds 0.75.
__device__ __forceinline__ float fp8_scale(float largest) {
  const uint32_t exponent = (__float_as_uint(largest) + 0x1fffff) >> 23;
  return __uint_as_float((exponent > 9 ? exponent - 8 : 1) << 23);
}

// 1 / scale, exactly.
__device__ __forceinline__ float inverse_of(float scale) {
  return __uint_as_float((254u << 23) - __float_as_uint(scale));
}

// Two adjacent values, the first in the lower byte.
__device__ __forceinline__ uint16_t pack_fp8(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}

__device__ __forceinline__ float2 unpack_fp8(uint16_t pair) {
  const __half2 halves = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
  return __half22float2(halves);
}

}  // namespace gpt2
