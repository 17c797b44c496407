// Code that forward and backward share: tiles of 64 rows of a head in shared memory, and the two kinds of matmul of such tiles.
//
// A block of 256 threads owns 64 lines (queries, or keys), and goes through the other side 64 lines at a time. Group g of 16
// neighbouring threads, half a warp, has the owned lines 4g to 4g + 3, and its member m the lines m, m + 16, m + 32 and m + 48 of the other
// side: 4 x 4 scores a thread. Of results with the head's columns a thread has the same four lines, and columns 4m to 4m + 3.
#pragma once

#include "../heads.cuh"

constexpr int tile = 64, threads = 256;
// The blocks for which an H100's SM has enough shared memory in backward.
template <int WIDTH>
constexpr int blocks = WIDTH == 64 ? 2 : 1;

__device__ int group() { return threadIdx.x / 16; }
__device__ int member() { return threadIdx.x % 16; }

// 64 rows of WIDTH floats (64 or 128), where a head's rest is zeros.
template <int WIDTH>
struct Tile {
  // Rows are an odd number of 16 bytes apart: 16 bytes of eight neighbouring rows lie in all 32 banks.
  float values[tile][WIDTH + 4];

  __device__ void fill(const Rows<const element> &from, int first, int T, int HS) {
    for (int row = threadIdx.x / 32; row < tile; row += threads / 32) {
      const int t = first + row;
      for (int d = threadIdx.x % 32; d < WIDTH; d += 32) values[row][d] = t < T && d < HS ? static_cast<float>(from[t][d]) : 0.0f;
    }
  }
  __device__ float4 four(int row, int column) const { return *reinterpret_cast<const float4 *>(&values[row][column]); }
};

// scores[i][j] += line i of the thread's owned lines times line j of the other side
template <int WIDTH>
__device__ void add_products(float (&scores)[4][4], const Tile<WIDTH> &own, const Tile<WIDTH> &other) {
#pragma unroll 4
  for (int d = 0; d < WIDTH; d += 4) {
    float4 a[4], b[4];
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = own.four(4 * group() + i, d), b[i] = other.four(member() + 16 * i, d);
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) scores[i][j] += a[i].x * b[j].x + a[i].y * b[j].y + a[i].z * b[j].z + a[i].w * b[j].w;
    }
  }
}

// A thread's part of a result: four lines, and four columns of each 64.
template <int WIDTH>
struct Result {
  float values[4][WIDTH / 16] = {};

  // += sum over the other side's lines s of weights[s][owned line] * lines[s]. A thread has weights[i][j] of owned line i and line j; its
  // group exchanges them through shared memory, and needs no other group's.
  __device__ void add(const float (&weights)[4][4], Tile<64> &exchange, const Tile<WIDTH> &lines) {
    __syncwarp();  // the group is done with what was there
#pragma unroll
    for (int j = 0; j < 4; j++) {
      *reinterpret_cast<float4 *>(&exchange.values[member() + 16 * j][4 * group()]) = {weights[0][j], weights[1][j], weights[2][j],
                                                                                      weights[3][j]};
    }
    __syncwarp();
#pragma unroll 4
    for (int s = 0; s < tile; s++) {
      const float4 four = exchange.four(s, 4 * group());
      const float weight[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int part = 0; part < WIDTH / 64; part++) {
        const float4 line = lines.four(s, part * 64 + 4 * member());
#pragma unroll
        for (int i = 0; i < 4; i++) {
          float *to = &values[i][part * 4];
          to[0] += weight[i] * line.x, to[1] += weight[i] * line.y, to[2] += weight[i] * line.z, to[3] += weight[i] * line.w;
        }
      }
    }
  }

  __device__ void multiply(int i, float factor) {
#pragma unroll
    for (int j = 0; j < WIDTH / 16; j++) values[i][j] *= factor;
  }

  __device__ void write(const Rows<element> &to, int first, int T, int HS, float factor) const {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int t = first + 4 * group() + i;
#pragma unroll
      for (int j = 0; j < WIDTH / 16; j++) {
        const int d = j / 4 * 64 + 4 * member() + j % 4;
        if (t < T && d < HS) to[t][d] = static_cast<element>(values[i][j] * factor);
      }
    }
  }
};

// The sum over a group; all its threads get the result.
__device__ float sum_of_group(float value) {
  for (int lanes = 8; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}
__device__ float largest_of_group(float value) {
  for (int lanes = 8; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  return value;
}
