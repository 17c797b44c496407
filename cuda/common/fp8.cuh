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

// The smallest power of two, from 2^-126 to 2^126, that is at least `bound`: the scale of results that are at most
// 448 bound.
__device__ __forceinline__ float fp8_scale_of_bound(float bound) {
  const uint32_t exponent = (__float_as_uint(bound) + 0x7fffff) >> 23;
  return __uint_as_float(min(max(exponent, 1u), 253u) << 23);
}

// The bound of a product's results: 448 (factor * the scale of the row of `in` + constant). BACKWARD is to the input
// through GELU; else it is forward with GELU, whose result is not larger than its input.
struct Fp8Bound {
  float factor, constant;
  __device__ __forceinline__ float scale(float in_scale) const {
    return fp8_scale_of_bound(fmaf(in_scale, factor, constant));
  }
};
template <bool BACKWARD>
__device__ __forceinline__ Fp8Bound gelu_bound(const float *factors) {
  if (BACKWARD) return {largest_gelu_derivative * factors[GPT2_FP8_COLUMN_SUM], 0};
  return {factors[GPT2_FP8_ROW_SUM], factors[GPT2_FP8_BIAS] / fp8_largest};
}

// 1 / scale, exactly.
__device__ __forceinline__ float inverse_of(float scale) {
  return __uint_as_float((254u << 23) - __float_as_uint(scale));
}

// The groups of rows of a columnwise copy.
__host__ __device__ constexpr int64_t columnwise_groups(int64_t rows) {
  return (rows + GPT2_FP8_GROUP - 1) / GPT2_FP8_GROUP;
}

// Two adjacent values, the first in the lower byte.
__device__ __forceinline__ uint16_t pack_fp8(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}

__device__ __forceinline__ float2 unpack_fp8(uint16_t pair) {
  const __half2 halves = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
  return __half22float2(halves);
}

// Stores COUNT adjacent values of x * inverse in one access.
template <int COUNT>
__device__ __forceinline__ void store_fp8(uint8_t *destination, const float (&x)[COUNT], float inverse) {
  Pack<uint16_t, COUNT / 2> pack;
#pragma unroll
  for (int i = 0; i < COUNT / 2; i++) pack.values[i] = pack_fp8(x[2 * i] * inverse, x[2 * i + 1] * inverse);
  *reinterpret_cast<Pack<uint16_t, COUNT / 2> *>(destination) = pack;
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

// The largest of a warp's numbers, none of which is negative or NaN: their bits have their order.
__device__ __forceinline__ float warp_largest(float value) {
  return __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(value)));
}

// GPT2_OK in a context of GPT2_FP8; the ops of FP8 need one.
inline int require_fp8(gpt2_context &context, const char *function) {
  const CudaContext &own = cuda(context);
  if (own.has_fp8) return GPT2_OK;
  const char *names[] = {"fp32", "tf32", "bf16"};
  return fail(&context, GPT2_UNSUPPORTED, function,
              std::string("expected a context of fp8, got one of ") + names[own.dtype]);
}

}  // namespace gpt2
