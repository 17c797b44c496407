// A weight in FP8 and its transposed copy, in one kernel. The scale depends on all elements, so the blocks first find
// the largest element, wait for each other, and then quantise. The block that finishes last takes the largest norms of
// rows and columns. Each warp keeps in registers the tile that it read last. On 132 SMs these tiles hold a whole weight
// of up to 2.7 million elements, which is then read only once.
//
// Blocks that wait for each other must all be on SMs. The grid has one block per SM although two fit, so that a second
// context may run the kernel at the same time, or another stream may fill half of the GPU. The previous kernel of the
// stream never waits for this kernel, and the next kernel is launched only after all blocks of this kernel have started
// (docs/programmatic-launch.md).
//
// Squares of E4M3 values are multiples of 2^-18. So their sums are integers in this unit, which atomics may add in any
// order.
#include "common/fp8.cuh"
#include "common/mma.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

using Sum = unsigned long long;  // squares, in units of 2^-18 times the square of the weight's scale
constexpr float units = 1 << 18;

// A warp's tile is 4 by 8 squares of 8 x 8 elements. Each lane transposes one square in registers.
constexpr int side = 8, tile_rows = 4 * side, tile_columns = 8 * side;
// The largest block whose threads have enough registers while two blocks fit on an SM.
constexpr int threads = 320, warps = threads / 32;

// The sum of squares of each row and column of the weight, in scratch; the kernel clears the sums first.
struct Sums {
  Sum *of_rows;     // [O]
  Sum *of_columns;  // [C]

  Sums(Scratch &scratch, int C, int O) : of_rows(scratch.take<Sum>(O)), of_columns(scratch.take<Sum>(C)) {}
};

// The largest `value` of a block's threads, in every thread. No value is negative or NaN. May be called repeatedly.
__device__ __forceinline__ float block_largest(float value) {
  __shared__ float of_warp[warps];
  value = warp_largest(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < warps; warp++) value = fmaxf(value, of_warp[warp]);
  return value;
}

// 8 adjacent elements of a row, in pairs: 16-bit variables would take a whole register each while the block waits.
struct Line {
  uint32_t pairs[side / 2];
};
__device__ __forceinline__ Line read_line(const bf16 *from) {
  const uint4 line = *reinterpret_cast<const uint4 *>(from);
  return {{line.x, line.y, line.z, line.w}};
}

// The largest of `largest` and the absolute values of a line; NaN is skipped.
__device__ __forceinline__ float largest_of(const Line &line, float largest) {
#pragma unroll
  for (const uint32_t bits : line.pairs) {
    const float2 pair = unpack_bf16(bits);
    largest = fmaxf(largest, fmaxf(fabsf(pair.x), fabsf(pair.y)));
  }
  return largest;
}

// sums[i] += values[i], added over the lanes whose indices differ only in bits LOW to HIGH - 1. For each of these bits,
// from the highest on, a lane passes on half of its values and keeps the other half. An fp32 sum of up to 64 squares
// may be rounded, but stays a multiple of the unit 2^-18. NaN counts as 0.
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
  for (int i = 0; i < side >> (HIGH - LOW); i++) {
    atomicAdd(sums + first + i, static_cast<Sum>(fmaxf(values[i], 0) * units));
  }
}

// The largest norm in units of the scale, in every thread: the square root of the largest of `count` (even) sums.
__device__ __forceinline__ float largest_norm(const Sum *sums, int count) {
  float largest = 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < count / 2; i += threads) {
    const ulonglong2 pair = __ldcg(reinterpret_cast<const ulonglong2 *>(sums) + i);
    largest = fmaxf(largest, static_cast<float>(max(pair.x, pair.y)));
  }
  return sqrtf(block_largest(largest) / units);
}

// A lane's 8 x 8 elements of a tile: all inside the weight, or all outside and 0 (O and C are multiples of 8).
struct Square {
  int row, column;
  bool exists;
  Line lines[side];

  __device__ __forceinline__ void read(const bf16 *weight, int tile, int C, int O) {
    const int lane = threadIdx.x % 32, tiles_a_row = (C + tile_columns - 1) / tile_columns;
    row = tile / tiles_a_row * tile_rows + lane / 8 * side;
    column = tile % tiles_a_row * tile_columns + lane % 8 * side;
    exists = row < O && column < C;
#pragma unroll
    for (int i = 0; i < side; i++) {
      const bf16 *from = weight + static_cast<int64_t>(row + i) * C + column;
      lines[i] = exists ? read_line(from) : Line{};
    }
  }
};

// Stores a lane's 8 x 8 square in FP8, and adds the squares of its values to the sums of rows and columns.
__device__ __forceinline__ void quantize(uint8_t *values, uint8_t *transposed, const Sums &sums, const Square &from,
                                         float inverse, int C, int O) {
  const int row = from.row, column = from.column;
  uint32_t square[side][side / 4];
#pragma unroll
  for (int i = 0; i < side; i++) {
#pragma unroll
    for (int j = 0; j < side / 4; j++) {
      const float2 low = unpack_bf16(from.lines[i].pairs[2 * j]), high = unpack_bf16(from.lines[i].pairs[2 * j + 1]);
      square[i][j] = pack_fp8(low.x * inverse, low.y * inverse) |
                     static_cast<uint32_t>(pack_fp8(high.x * inverse, high.y * inverse)) << 16;
    }
  }
  if (values) {
    float row_sums[side] = {};
#pragma unroll
    for (int i = 0; i < side; i++) {
      if (from.exists) {
        uint8_t *to = values + static_cast<int64_t>(row + i) * C + column;
        *reinterpret_cast<uint2 *>(to) = make_uint2(square[i][0], square[i][1]);
      }
#pragma unroll
      for (int j = 0; j < side / 2; j++) {
        const float2 pair = unpack_fp8(static_cast<uint16_t>(square[i][j / 2] >> j % 2 * 16));
        row_sums[i] += pair.x * pair.x + pair.y * pair.y;
      }
    }
    add_sums<0, 3>(sums.of_rows + row, row_sums, row < O);
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
      transpose_bytes(upper);
      transpose_bytes(lower);
      if (from.exists) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          uint8_t *to = transposed + static_cast<int64_t>(column + j + i) * O + row;
          *reinterpret_cast<uint2 *>(to) = make_uint2(upper[i], lower[i]);
        }
      }
    }
    float column_sums[side] = {};
#pragma unroll
    for (int i = 0; i < side; i++) {
#pragma unroll
      for (int j = 0; j < side / 2; j++) {
        const float2 pair = unpack_fp8(static_cast<uint16_t>(square[i][j / 2] >> j % 2 * 16));
        column_sums[2 * j] += pair.x * pair.x;
        column_sums[2 * j + 1] += pair.y * pair.y;
      }
    }
    add_sums<3, 5>(sums.of_columns + column, column_sums, column < C);
  }
}

__global__ void __launch_bounds__(threads, 2)
    quantize_kernel(uint8_t *values, uint8_t *transposed, float *factors, Sums sums, Grid *grid, const bf16 *weight,
                    const bf16 *bias, int tiles, int C, int O) {
  wait_for_previous_kernel();
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // Threads of the warps that have the fewest tiles come first in the loops over `thread`.
  const int thread = ((warps - 1 - warp) * blocks + block) * 32 + lane;
  for (int i = thread; i < O; i += blocks * threads) sums.of_rows[i] = 0;
  for (int i = thread; i < C; i += blocks * threads) sums.of_columns[i] = 0;
  // Adjacent tiles go to different SMs, so that a small weight is spread over all of them.
  const int stride = blocks * warps;
  int tile = warp * blocks + block;
  Square square;
  float largest = 0, of_bias = 0;
  for (; tile < tiles; tile += stride) {
    square.read(weight, tile, C, O);
#pragma unroll
    for (int i = 0; i < side; i++) largest = largest_of(square.lines[i], largest);
  }
  if (bias) {
    for (int i = thread; i < O / side; i += blocks * threads) {
      of_bias = largest_of(read_line(bias + i * side), of_bias);
    }
    of_bias = block_largest(of_bias);
  }
  largest = block_largest(largest);

  __shared__ float largest_of_all;
  if (threadIdx.x == 0) {
    if (of_bias > 0) atomicMax(&grid->largest_of_bias, __float_as_uint(of_bias));
    atomicMax(&grid->largest, __float_as_uint(largest));
    __threadfence();
    atomicAdd(&grid->arrivals, 1u);
    unsigned arrivals;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrivals) : "l"(&grid->arrivals) : "memory");
    } while (arrivals < gridDim.x);
    largest_of_all = __uint_as_float(__ldcg(&grid->largest));
  }
  __syncthreads();
  const float scale = fp8_scale(largest_of_all), inverse = inverse_of(scale);

  // Tiles are quantised in reverse order: the tile read last is still in registers, the tiles read just before in L2.
  for (tile -= stride; tile >= 0; tile -= stride) {
    quantize(values, transposed, sums, square, inverse, C, O);
    if (tile >= stride) square.read(weight, tile - stride, C, O);
  }

  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(&grid->arrivals, 1u) == 2 * gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  const float row_norm = values ? largest_norm(sums.of_rows, O) : 0.0f;
  const float column_norm = transposed ? largest_norm(sums.of_columns, C) : 0.0f;
  if (threadIdx.x != 0) return;
  factors[GPT2_FP8_SCALE] = scale;
  factors[GPT2_FP8_ROW_NORM] = row_norm * scale;
  factors[GPT2_FP8_COLUMN_NORM] = column_norm * scale;
  factors[GPT2_FP8_BIAS] = __uint_as_float(__ldcg(&grid->largest_of_bias));
  *grid = {};
}

}  // namespace

int64_t ops::fp8_quantize_weight_scratch(const Context &, int C, int O) {
  Scratch scratch;
  Sums(scratch, C, O);
  return scratch.bytes();
}

void ops::fp8_quantize_weight(Context &gpu, uint8_t *values, uint8_t *transposed, float *factors, const void *weight,
                              const void *bias, int C, int O) {
  Scratch scratch(gpu.workspace);
  const Sums sums(scratch, C, O);
  const int64_t tiles = ceil_divide(O, tile_rows) * ceil_divide(C, tile_columns);
  const int64_t blocks = tiles < gpu.multiprocessors ? tiles : gpu.multiprocessors;
  launch_overlapping(gpu, quantize_kernel, blocks, threads, 0, values, transposed, factors, sums, gpu.grid,
                     static_cast<const bf16 *>(weight), static_cast<const bf16 *>(bias), tiles, C, O);
}

}  // namespace gpt2
