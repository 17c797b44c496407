// The columnwise copy of a matrix in FP8. Memory-bound. The kernel transposes bytes, and rescales the rows whose scale
// is below the scale of their block of GPT2_FP8_BLOCK rows.
//
// A thread block takes 128 rows of 128 channels, so that both reads and writes are whole lines of 128 bytes. Each warp
// reads a group of 16 rows, 4 channels in a lane, and transposes them in registers. Shared memory then gathers the 8
// groups of a channel. For the classifier the kernel also scales and rounds rows of bf16.
#include "fp8-transpose.cuh"

#include <type_traits>

#include "common/mma.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int group = GPT2_FP8_GROUP;
constexpr int groups = 8, rows = groups * group, channels = 128;
constexpr int threads = groups * 32, warps = groups;
constexpr int lines_a_turn = threads / groups;  // channels that are stored at a time
constexpr int scales_a_thread = GPT2_FP8_BLOCK / threads;

// Multiplies a pair of E4M3 values by a power of two that is at most 1. In half precision this is exact, except below
// 2^-14, where E4M3 rounds to 0 in any case.
__device__ __forceinline__ uint32_t rescale(uint32_t pair, __half2 factor) {
  const __half2 halves = __nv_cvt_fp8x2_to_halfraw2(static_cast<uint16_t>(pair), __NV_E4M3);
  return __nv_cvt_halfraw2_to_fp8x2(__hmul2(halves, factor), __NV_SATFINITE, __NV_E4M3);
}

// T is uint8_t for rows in FP8, or bf16 for rows to multiply by `factor`. `scale` has the scales of the rows' FP8
// copies.
template <class T>
__global__ void __launch_bounds__(threads, std::is_same_v<T, bf16> ? 4 : 5)
    transpose_kernel(uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm, const T *values,
                     const float *scale, const float *norm, int N, int C, int tiles_a_row, const float *factor,
                     uint8_t *weights) {
  wait_for_previous_kernel();
  constexpr bool rounds = std::is_same_v<T, bf16>;
  using Word = std::conditional_t<rounds, uint2, uint32_t>;
  __shared__ float of_warp[warps], norm_of_warp[warps];
  __shared__ uint4 staging[channels * groups];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row0 = static_cast<int>(blockIdx.x) / tiles_a_row * rows, first = row0 + warp * group;
  const int channel0 = static_cast<int>(blockIdx.x) % tiles_a_row * channels, channel = channel0 + lane * 4;

  Word loaded[group] = {};
  if (channel < C) {
    const T *source = values + static_cast<int64_t>(first) * C + channel;
    const auto read = [&](int count) {
#pragma unroll
      for (int i = 0; i < group; i++) {
        if (i < count) loaded[i] = *reinterpret_cast<const Word *>(source + static_cast<int64_t>(i) * C);
      }
    };
    // Nearly all groups have 16 rows below N; their reads need no checks.
    if (N - first >= group) {
      read(group);
    } else {
      read(N - first);
    }
  }

  const int block = row0 / GPT2_FP8_BLOCK;
  const bool stores_block = channel0 == 0 && row0 % GPT2_FP8_BLOCK == 0;
  float largest = 0, largest_norm = 0;
#pragma unroll
  for (int i = 0; i < scales_a_thread; i++) {
    const int row = block * GPT2_FP8_BLOCK + i * threads + static_cast<int>(threadIdx.x);
    if (row >= N) continue;
    largest = fmaxf(largest, rounds ? fabsf(factor[row]) * scale[row] * fp8_largest : scale[row]);
    if (!rounds && stores_block) largest_norm = fmaxf(largest_norm, norm[row]);
  }
  const float of_row = (rounds ? factor : scale)[min(first + lane % group, N - 1)];
  largest = warp_largest(largest);
  largest_norm = warp_largest(largest_norm);
  if (lane == 0) {
    of_warp[warp] = largest;
    norm_of_warp[warp] = largest_norm;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < warps; i++) largest = fmaxf(largest, of_warp[i]);
  if constexpr (rounds) largest = fp8_scale(largest);
  const float inverse = inverse_of(largest);
  if (stores_block && threadIdx.x == 0) {
    for (const float of_one : norm_of_warp) largest_norm = fmaxf(largest_norm, of_one);
    columnwise_scale[block] = largest;
    if (!rounds) columnwise_norm[block] = largest_norm;
  }
  const int64_t groups_a_channel = columnwise_groups(N);
  if (const int row = row0 + static_cast<int>(threadIdx.x);
      rounds && channel0 == 0 && threadIdx.x < rows && row < groups_a_channel * group) {
    const float weight = row < N ? factor[row] * inverse : 0.0f, high = unpack_fp8(pack_fp8(weight, 0)).x;
    uint8_t *to = weights + row / group * group + row % 8 * 2 + row / 8 % 2;  // in the row order of a columnwise group
    to[0] = static_cast<uint8_t>(pack_fp8(high, 0));
    to[groups_a_channel * group] = static_cast<uint8_t>(pack_fp8((weight - high) * 0x1p6f, 0));
  }

  uint32_t x[group];
#pragma unroll
  for (int i = 0; i < group; i++) {
    const float by = __shfl_sync(0xffffffffu, of_row * inverse, i);
    if constexpr (rounds) {
      const float2 low = unpack_bf16(loaded[i].x), high = unpack_bf16(loaded[i].y);
      // Rows past N are 0, even if the factor (the last row's) is NaN.
      x[i] = first + i >= N ? 0
                            : pack_fp8(low.x * by, low.y * by) |
                                  static_cast<uint32_t>(pack_fp8(high.x * by, high.y * by)) << 16;
    } else {
      const __half2 halves = __float2half2_rn(by);
      x[i] = rescale(loaded[i] & 0xffff, halves) | rescale(loaded[i] >> 16, halves) << 16;
    }
  }
  uint32_t lines[4][4];  // 4 channels
#pragma unroll
  for (int word = 0; word < 4; word++) {
    uint32_t bytes[4] = {x[2 * word], x[2 * word + 8], x[2 * word + 1], x[2 * word + 9]};
    transpose_bytes(bytes);
#pragma unroll
    for (int j = 0; j < 4; j++) lines[j][word] = bytes[j];
  }
  // Without the exclusive or, the lanes of a warp would write to the same 4 banks.
#pragma unroll
  for (int j = 0; j < 4; j++) {
    staging[(lane * 4 + j) * groups + (warp ^ lane % groups)] =
        make_uint4(lines[j][0], lines[j][1], lines[j][2], lines[j][3]);
  }
  __syncthreads();

  const int place = lane % groups, line = static_cast<int>(threadIdx.x) / groups;
  if (row0 / group + place >= groups_a_channel) return;
  auto *to = reinterpret_cast<uint4 *>(columnwise) + (channel0 + line) * groups_a_channel + row0 / group + place;
#pragma unroll
  for (int i = 0; i < channels; i += lines_a_turn) {
    const int from = i + line;
    if (channel0 + from < C) *to = staging[from * groups + (place ^ from / 4 % groups)];
    to += lines_a_turn * groups_a_channel;
  }
}

template <class T>
void transpose(const CudaContext &context, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
               const T *values, const float *scale, const float *norm, int N, int C, const float *factor = nullptr,
               uint8_t *weights = nullptr) {
  const int tiles_a_row = static_cast<int>(ceil_divide(C, channels));
  launch_overlapping(context, transpose_kernel<T>, ceil_divide(N, rows) * tiles_a_row, threads, 0, columnwise,
                     columnwise_scale, columnwise_norm, values, scale, norm, N, C, tiles_a_row, factor, weights);
}

}  // namespace

void scale_columnwise(const CudaContext &context, uint8_t *columnwise, float *columnwise_scale, uint8_t *weights,
                      const bf16 *rows, const float *row_scale, const float *factor, int N, int C) {
  transpose(context, columnwise, columnwise_scale, nullptr, rows, row_scale, nullptr, N, C, factor, weights);
}

void ops::fp8_transpose(Context &gpu, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
                        const uint8_t *values, const float *scale, const float *norm, int N, int C) {
  transpose(gpu, columnwise, columnwise_scale, columnwise_norm, values, scale, norm, N, C);
}

}  // namespace gpt2
