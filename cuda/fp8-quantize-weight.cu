// A weight in FP8, as it is and transposed, in two kernels, because its scale needs all of its elements. In the first
// each block finds the largest element of its part. In the second every block takes the largest of these, each warp
// quantises a tile, and the block that finishes last takes the largest sums over rows and columns.
//
// E4M3 values are multiples of 2^-9. So sums are integers, which atomics may add in any order.
#include "common/fp8.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

using Sum = unsigned long long;  // of absolute values, in units of 2^-9 times the weight's scale
constexpr float units = 512;

// The first kernel has a block for each part of the weight, and one for the bias.
constexpr int parts = 256;
constexpr int largest_threads = 256;

// A warp's tile is 4 by 8 squares of 8 x 8, one for each lane, which transposes it in registers.
constexpr int side = 8, tile_rows = 4 * side, tile_columns = 8 * side;
// Few, so that the blocks of a small weight are spread over all SMs.
constexpr int quantize_threads = 128;

// Results of the first kernel in scratch, and sums that it clears, for the second.
struct Findings {
  float *largest;             // [parts + 1]; the last is the bias's
  Sum *row_sums;              // [O], zero
  Sum *column_sums;           // [C], zero
  unsigned *blocks_finished;  // of the second kernel, zero

  Findings(Scratch &scratch, int C, int O)
      : largest(scratch.take<float>(parts + 1)),
        row_sums(scratch.take<Sum>(O)),
        column_sums(scratch.take<Sum>(C)),
        blocks_finished(scratch.take<unsigned>(1)) {}
};

// The largest of the block's numbers, none of which is negative or NaN, in every thread. May be called repeatedly.
template <int THREADS>
__device__ __forceinline__ float block_largest(float value) {
  __shared__ float of_warp[THREADS / 32];
  value = warp_largest(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < THREADS / 32; warp++) value = fmaxf(value, of_warp[warp]);
  return value;
}

// The largest absolute value in every `stride`-th pack of 8 from `first` on; NaN is skipped.
__device__ __forceinline__ float largest_of(const bf16 *values, int64_t packs, int64_t first, int64_t stride) {
  float largest = 0;
#pragma unroll 4
  for (int64_t i = first; i < packs; i += stride) {
    float x[8];
    load(x, values + i * 8);
#pragma unroll
    for (int j = 0; j < 8; j++) largest = fmaxf(largest, fabsf(x[j]));
  }
  return largest;
}

__global__ void __launch_bounds__(largest_threads)
    largest_kernel(Findings findings, const bf16 *weight, const bf16 *bias, int C, int O) {
  wait_for_previous_kernel();
  const int thread = static_cast<int>(blockIdx.x) * largest_threads + static_cast<int>(threadIdx.x);
  constexpr int stride = parts * largest_threads;
  float largest = 0;
  if (blockIdx.x < parts) {
    for (int i = thread; i < O; i += stride) findings.row_sums[i] = 0;
    for (int i = thread; i < C; i += stride) findings.column_sums[i] = 0;
    largest = largest_of(weight, static_cast<int64_t>(O) * C / 8, thread, stride);
  } else {
    if (threadIdx.x == 0) *findings.blocks_finished = 0;
    if (bias) largest = largest_of(bias, O / 8, threadIdx.x, largest_threads);
  }
  largest = block_largest<largest_threads>(largest);
  if (threadIdx.x == 0) findings.largest[blockIdx.x] = largest;
}

// Transposes 4 x 4 bytes.
__device__ __forceinline__ void transpose(uint32_t (&rows)[4]) {
  const uint32_t a = __byte_perm(rows[0], rows[1], 0x5140), b = __byte_perm(rows[0], rows[1], 0x7362);
  const uint32_t c = __byte_perm(rows[2], rows[3], 0x5140), d = __byte_perm(rows[2], rows[3], 0x7362);
  rows[0] = __byte_perm(a, c, 0x5410);
  rows[1] = __byte_perm(a, c, 0x7632);
  rows[2] = __byte_perm(b, d, 0x5410);
  rows[3] = __byte_perm(b, d, 0x7632);
}

// sums[i] += values[i], added over the lanes whose numbers differ in the bits from LOW to below HIGH. With each bit,
// from the highest on, a lane passes on half of its values and keeps the others. The floats are exact: at most 64 E4M3
// values go into one. One that is NaN counts as 0.
template <int LOW, int HIGH>
__device__ __forceinline__ void add_sums(Sum *sums, float (&values)[side], bool exist) {
  int kept = side, first = 0;
#pragma unroll
  for (int bit = HIGH - 1; bit >= LOW; bit--) {
    kept /= 2;
    const bool upper = threadIdx.x >> bit & 1;
    if (upper) first += kept;
#pragma unroll
    for (int i = 0; i < kept; i++) {
      const float passed = upper ? values[i] : values[i + kept];
      values[i] = (upper ? values[i + kept] : values[i]) + __shfl_xor_sync(0xffffffffu, passed, 1 << bit);
    }
  }
  if (!exist) return;
#pragma unroll
  for (int i = 0; i < side >> (HIGH - LOW); i++) atomicAdd(sums + first + i, static_cast<unsigned>(values[i] * units));
}

// The largest sum, in every thread of the block; `count` is even.
__device__ __forceinline__ float largest_sum(const Sum *sums, int count) {
  float largest = 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < count / 2; i += quantize_threads) {
    const ulonglong2 pair = __ldcg(reinterpret_cast<const ulonglong2 *>(sums) + i);
    largest = fmaxf(largest, static_cast<float>(max(pair.x, pair.y)));
  }
  return block_largest<quantize_threads>(largest) / units;
}

__global__ void __launch_bounds__(quantize_threads)
    quantize_kernel(uint8_t *values, uint8_t *transposed, float *factors, Findings findings, const bf16 *weight, int C,
                    int O) {
  wait_for_previous_kernel();
  const int lane = threadIdx.x % 32;
  const int64_t tile = (static_cast<int64_t>(blockIdx.x) * quantize_threads + threadIdx.x) / 32;
  const int tiles_a_row = (C + tile_columns - 1) / tile_columns;
  const int row = static_cast<int>(tile / tiles_a_row) * tile_rows + lane / 8 * side;
  const int column = static_cast<int>(tile % tiles_a_row) * tile_columns + lane % 8 * side;
  // O and C are multiples of `side`, so the square lies inside or outside of the weight; outside it is 0.
  const bool exists = row < O && column < C;
  Pack<bf16, side> lines[side] = {};
  if (exists) {
#pragma unroll
    for (int i = 0; i < side; i++) {
      lines[i] = *reinterpret_cast<const Pack<bf16, side> *>(weight + static_cast<int64_t>(row + i) * C + column);
    }
  }
  float largest = 0;
#pragma unroll
  for (int i = 0; i < parts; i += quantize_threads) largest = fmaxf(largest, findings.largest[i + threadIdx.x]);
  const float scale = fp8_scale(block_largest<quantize_threads>(largest)), inverse = inverse_of(scale);

  uint32_t square[side][side / 4];
  float row_sums[side] = {}, column_sums[side] = {};
#pragma unroll
  for (int i = 0; i < side; i++) {
#pragma unroll
    for (int j = 0; j < side; j += 2) {
      const uint16_t pair =
          pack_fp8(to_float(lines[i].values[j]) * inverse, to_float(lines[i].values[j + 1]) * inverse);
      if (j % 4 == 0) {
        square[i][j / 4] = pair;
      } else {
        square[i][j / 4] |= static_cast<uint32_t>(pair) << 16;
      }
      const float2 quantized = unpack_fp8(pair);
      row_sums[i] += fabsf(quantized.x) + fabsf(quantized.y);
      column_sums[j] += fabsf(quantized.x);
      column_sums[j + 1] += fabsf(quantized.y);
    }
  }
  if (values) {
    if (exists) {
#pragma unroll
      for (int i = 0; i < side; i++) {
        uint8_t *to = values + static_cast<int64_t>(row + i) * C + column;
        *reinterpret_cast<uint2 *>(to) = make_uint2(square[i][0], square[i][1]);
      }
    }
    add_sums<0, 3>(findings.row_sums + row, row_sums, row < O);
  }
  if (transposed) {
#pragma unroll
    for (int j = 0; j < side; j += 4) {
      uint32_t upper[4], lower[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        upper[i] = square[i][j / 4];
        lower[i] = square[i + 4][j / 4];
      }
      transpose(upper);
      transpose(lower);
      if (exists) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          uint8_t *to = transposed + static_cast<int64_t>(column + j + i) * O + row;
          *reinterpret_cast<uint2 *>(to) = make_uint2(upper[i], lower[i]);
        }
      }
    }
    add_sums<3, 5>(findings.column_sums + column, column_sums, column < C);
  }

  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(findings.blocks_finished, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  const float row_sum = values ? largest_sum(findings.row_sums, O) : 0.0f;
  const float column_sum = transposed ? largest_sum(findings.column_sums, C) : 0.0f;
  if (threadIdx.x != 0) return;
  factors[GPT2_FP8_SCALE] = scale;
  factors[GPT2_FP8_ROW_SUM] = row_sum * scale;
  factors[GPT2_FP8_COLUMN_SUM] = column_sum * scale;
  factors[GPT2_FP8_BIAS] = findings.largest[parts];
}

}  // namespace

int64_t ops::fp8_quantize_weight_scratch(const gpt2_context &, int C, int O) {
  Scratch scratch;
  Findings(scratch, C, O);
  return scratch.bytes();
}

int ops::fp8_quantize_weight(gpt2_context &context, uint8_t *values, uint8_t *transposed, float *factors,
                             const void *weight, const void *bias, int C, int O) {
  const char *function = "gpt2_fp8_quantize_weight";
  if (const int status = require_fp8(context, function)) return status;
  CudaContext &own = cuda(context);
  Scratch scratch(own.workspace);
  const Findings findings(scratch, C, O);
  auto *w = static_cast<const bf16 *>(weight);
  launch_overlapping(own, largest_kernel, parts + 1, largest_threads, 0, findings, w, static_cast<const bf16 *>(bias),
                     C, O);
  const int64_t tiles = ceil_divide(O, tile_rows) * ceil_divide(C, tile_columns);
  launch_overlapping(own, quantize_kernel, ceil_divide(tiles, quantize_threads / 32), quantize_threads, 0, values,
                     transposed, factors, findings, w, C, O);
  return GPT2_LAUNCHED(context, function);
}

}  // namespace gpt2
