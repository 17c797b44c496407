// Code of forward and backward. A block of 4 warps owns 64 lines (queries, or keys), a warp 16 of them, and goes through the other side
// 64 lines at a time (32 for wide heads, which need the registers). Tensor cores multiply, in bf16; all sums are fp32.
#pragma once

#include <cuda_pipeline.h>

#include "../../tensor-cores.cuh"
#include "../heads.cuh"

constexpr int lines = 64, threads = 128;
template <int WIDTH>
constexpr int others = WIDTH == 64 ? 64 : 32;
static_assert(sizeof(element) == 2, "tensor cores multiply bf16 here");

// LINES rows of a head in shared memory, of WIDTH elements (64 or 128), where a head's rest is zeros.
template <int LINES, int WIDTH>
struct Tile {
  // An odd number of 16 bytes: the eight rows of a matrix that a warp reads lie in all 32 banks.
  static constexpr int stride = WIDTH + 8;
  alignas(16) element values[LINES][stride];

  // Begins to copy the rows from position `first` on, with zeros past T. They are there after __pipeline_commit,
  // __pipeline_wait_prior and a barrier.
  __device__ void fill(const Rows<const element> &from, int first, int T, int HS) {
    const bool has_vectors = HS % 8 == 0 && reinterpret_cast<size_t>(from.data) % 16 == 0;
    const int width = has_vectors ? 8 : 1;
    for (int i = threadIdx.x; i < LINES * WIDTH / width; i += threads) {
      const int row = i / (WIDTH / width), d = i % (WIDTH / width) * width, t = first + row;
      const bool is_inside = t < T && d < HS;
      if (has_vectors) {
        __pipeline_memcpy_async(&values[row][d], is_inside ? from[t] + d : from.data, 16, is_inside ? 0 : 16);
      } else {
        values[row][d] = is_inside ? from[t][d] : static_cast<element>(0.0f);
      }
    }
  }
  // 16 rows from `row` on as lines, 16 columns as k's.
  __device__ Fragment by_rows(int row, int column) const { return load_fragment<true>(&values[row][column], stride); }
  // 16 columns as lines, 16 rows as k's.
  __device__ Fragment by_columns(int row, int column) const { return load_fragment<false>(&values[row][column], stride); }
};

// The first of the block's lines that the warp owns.
__device__ int warp_line() { return threadIdx.x / 32 * 16; }
// The row and the column of number `e` of a result [16,8] in this lane.
__device__ int row_of(int e) { return threadIdx.x % 32 / 4 + e / 2 * 8; }
__device__ int column_of(int e) { return threadIdx.x % 4 * 2 + e % 2; }

// scores [16,OTHERS] += the warp's lines times all others.
template <int OTHERS, int WIDTH>
__device__ void add_products(float (&scores)[OTHERS / 8][4], const Tile<lines, WIDTH> &own, const Tile<OTHERS, WIDTH> &other) {
#pragma unroll
  for (int k = 0; k < WIDTH; k += 16) {
    const Fragment a = own.by_rows(warp_line(), k);
#pragma unroll
    for (int j = 0; j < OTHERS / 16; j++) {
      const Fragment b = other.by_rows(16 * j, k);
      multiply(scores[2 * j], a, b, 0);
      multiply(scores[2 * j + 1], a, b, 1);
    }
  }
}

// result [16,WIDTH] += weights [16,OTHERS] times the rows of `other`. The weights stay in the lanes that computed them.
template <int OTHERS, int WIDTH>
__device__ void add_weighted(float (&result)[WIDTH / 8][4], const float (&weights)[OTHERS / 8][4], const Tile<OTHERS, WIDTH> &other) {
#pragma unroll
  for (int k = 0; k < OTHERS / 16; k++) {
    const Fragment a = as_fragment(weights[2 * k], weights[2 * k + 1]);
#pragma unroll
    for (int j = 0; j < WIDTH / 16; j++) {
      const Fragment b = other.by_columns(16 * k, 16 * j);
      multiply(result[2 * j], a, b, 0);
      multiply(result[2 * j + 1], a, b, 1);
    }
  }
}

// Writes the warp's lines; `first` is the block's.
template <int TILES>
__device__ void write(const Rows<element> &to, const float (&result)[TILES][4], int first, int T, int HS, float factor) {
#pragma unroll
  for (int j = 0; j < TILES; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int t = first + warp_line() + row_of(e), d = 8 * j + column_of(e);
      if (t < T && d < HS) to[t][d] = static_cast<element>(result[j][e] * factor);
    }
  }
}

// The sum over the four lanes that have a row of a result.
__device__ inline float sum_of_row(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}
__device__ inline float largest_of_row(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
