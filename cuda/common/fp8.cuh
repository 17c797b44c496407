// E4M3, E5M2 and their scales, as gpt2.h defines them under "FP8".
#pragma once

#include <cuda_fp8.h>

#include "device.cuh"
#include "fp8-numbers.h"

namespace gpt2 {

// The smallest power of two, at least 2^-126, with which `largest` / scale is at most 448 = 1.75 * 2^8: the exponent is
// rounded up where the fraction exceeds 0.75. Infinity and NaN give 2^120: bits are clamped to infinity's, because
// canonical NaN is 0x7fffffff, whose exponent would be rounded up.
__device__ __forceinline__ float fp8_scale(float largest) {
  const uint32_t exponent = (min(__float_as_uint(largest) & 0x7fffffff, 0x7f800000u) + 0x1fffff) >> 23;
  return __uint_as_float((exponent > 9 ? exponent - 8 : 1) << 23);
}

// The upper bound of a row's L2 norm (`norm` in gpt2.h); `squares` is the sum of squares of the row divided by `scale`.
__device__ __forceinline__ float fp8_norm(float squares, int C, float scale) {
  return scale * fmaf(1.0625f, sqrtf(squares), 0x1p-10f * sqrtf(static_cast<float>(C)));
}

// Whether a row with this scale holds infinity or NaN. A matmul of the row's saturated values may not show this.
__device__ __forceinline__ bool is_not_finite(float scale) { return scale >= 0x1p120f; }

// 1 / scale, exactly: a scale is a power of two.
__device__ __forceinline__ float inverse_of(float scale) {
  return __uint_as_float((254u << 23) - __float_as_uint(scale));
}

// The number of groups of GPT2_FP8_GROUP rows in a columnwise copy.
__host__ __device__ constexpr int64_t columnwise_groups(int64_t rows) {
  return (rows + GPT2_FP8_GROUP - 1) / GPT2_FP8_GROUP;
}

// Two values rounded to E4M3, saturated at 448; `low` goes to the lower byte.
__device__ __forceinline__ uint16_t pack_fp8(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}

__device__ __forceinline__ uint16_t pack_e5m2(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E5M2);
}

__device__ __forceinline__ float2 unpack_fp8(uint16_t pair) {
  const __half2 halves = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
  return __half22float2(halves);
}

// The lower of two packed E5M2 values. An E5M2 value is the upper byte of a half.
__device__ __forceinline__ float unpack_e5m2(uint16_t pair) {
  return __half2float(__ushort_as_half(static_cast<uint16_t>(pair << 8)));
}

__device__ __forceinline__ float to_float(__nv_fp8_e4m3 value) { return static_cast<float>(value); }

// GELU, and its derivative in one byte (gpt2.h). `bits` is the float 2^15 + 200 gelu'(x) + 28.5: its bits 8 to 15 are
// the byte plus 128, or 255 for NaN. With s = (1 + tanh) / 2 and u' = gelu_scale + 3 gelu_cubic x^2, gelu(x) = x s and
// gelu'(x) = s + gelu(x) (1 - s) 2 u'.
struct GeluAndDerivative {
  float value;
  uint32_t bits;

  __device__ __forceinline__ explicit GeluAndDerivative(float x) {
    const float square = x * x;
    const float s = fmaf(0.5f, tanh_for<bf16>(x * fmaf(gelu_cubic, square, gelu_scale)), 0.5f);
    value = x * s;
    const float slope = fmaf(1200 * gelu_cubic, square, 400 * gelu_scale);
    bits = __float_as_uint(fmaf(fmaf(-value, s, value), slope, fmaf(s, 200, 0x1p15f + 28.5f)));
  }
  __device__ __forceinline__ int8_t byte() const { return static_cast<int8_t>(bits >> 8 ^ 0x80); }
};

__device__ __forceinline__ uint16_t pack_bytes(const GeluAndDerivative &low, const GeluAndDerivative &high) {
  return static_cast<uint16_t>(__byte_perm(low.bits, high.bits, 0x51) ^ 0x8080);
}

// Decodes GELU's derivative from the bits of the float 2^23 + byte + 128.
__device__ __forceinline__ float derivative_of(uint32_t bits) {
  return bits == 0x4b0000ff ? __int_as_float(0x7fffffff) : (__uint_as_float(bits) - (0x1p23f + 28)) * 0.005f;
}

__device__ __forceinline__ float to_float(int8_t byte) { return derivative_of(0x4b000080 + byte); }

__device__ __forceinline__ float2 unpack_derivatives(uint16_t pair) {
  const uint32_t bits = pair ^ 0x8080u;
  return make_float2(derivative_of(__byte_perm(bits, 0x4b000000, 0x7440)),
                     derivative_of(__byte_perm(bits, 0x4b000000, 0x7441)));
}

// Stores COUNT values of x * inverse as E4M3 in one access. Returns the sum of their squares before rounding.
template <int COUNT>
__device__ __forceinline__ float store_fp8(uint8_t *destination, const float (&x)[COUNT], float inverse) {
  Pack<uint16_t, COUNT / 2> pack;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < COUNT / 2; i++) {
    const float low = x[2 * i] * inverse, high = x[2 * i + 1] * inverse;
    pack.values[i] = pack_fp8(low, high);
    squares = fmaf(low, low, fmaf(high, high, squares));
  }
  *reinterpret_cast<Pack<uint16_t, COUNT / 2> *>(destination) = pack;
  return squares;
}

// Transposes 4 x 4 bytes, one row in each word.
__device__ __forceinline__ void transpose_bytes(uint32_t (&rows)[4]) {
  const uint32_t a = __byte_perm(rows[0], rows[1], 0x5140), b = __byte_perm(rows[0], rows[1], 0x7362);
  const uint32_t c = __byte_perm(rows[2], rows[3], 0x5140), d = __byte_perm(rows[2], rows[3], 0x7362);
  rows[0] = __byte_perm(a, c, 0x5410);
  rows[1] = __byte_perm(a, c, 0x7632);
  rows[2] = __byte_perm(b, d, 0x5410);
  rows[3] = __byte_perm(b, d, 0x7632);
}

// The largest of a warp's numbers. None is negative or NaN, so that their bits have the same order as integers.
__device__ __forceinline__ float warp_largest(float value) {
  return __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(value)));
}

}  // namespace gpt2
