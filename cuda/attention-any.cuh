// Causal attention for any head size up to 256, in fp32, tf32 and bf16: the flash attention of attention.cuh with fp32
// sums and tiles of 32 queries by 32 keys in shared memory.
#pragma once

#include "attention.cuh"

namespace gpt2::attention_any {

constexpr int threads = 256;
constexpr int tile = 32;
constexpr int most_head_size = 256;

// The stride of a tile's rows in shared memory, in floats. One float of padding avoids bank conflicts.
__device__ __forceinline__ int line_of(int HS) { return HS + 1; }

template <class T>
__device__ __forceinline__ void copy_tile(float *shared, const T *source, int64_t stride, int first, int end, int HS) {
  for (int i = threadIdx.x; i < tile * HS; i += threads) {
    const int line = i / HS, c = i % HS;
    shared[line * line_of(HS) + c] = first + line < end ? to_float(source[(first + line) * stride + c]) : 0.0f;
  }
}

// A thread's 2 x 2 dot products: rows `row` and `row` + 16 of tile a with rows `column` and `column` + 16 of tile b.
struct Cell {
  int row = static_cast<int>(threadIdx.x) / 16, column = static_cast<int>(threadIdx.x) % 16;
  float values[2][2] = {};

  __device__ void add_products(const float *a, const float *b, int HS) {
    const int line = line_of(HS);
    for (int c = 0; c < HS; c++) {
      const float a0 = a[row * line + c], a1 = a[(row + 16) * line + c];
      const float b0 = b[column * line + c], b1 = b[(column + 16) * line + c];
      values[0][0] += a0 * b0;
      values[0][1] += a0 * b1;
      values[1][0] += a1 * b0;
      values[1][1] += a1 * b1;
    }
  }
};

// A thread's elements of a result tile: columns `begin`, `begin` + 8, ... of row `line`.
template <int COLUMNS>
struct Line {
  int line = static_cast<int>(threadIdx.x) / 8, begin = static_cast<int>(threadIdx.x) % 8;
  float values[COLUMNS] = {};

  // values += the sum over the rows i of a tile of weights[i * stride] * row i of `lines`.
  __device__ void add_weighted(const float *weights, int stride, const float *lines, int HS) {
    for (int i = 0; i < tile; i++) {
      const float weight = weights[i * stride];
#pragma unroll
      for (int c = 0; c < COLUMNS; c++) {
        if (begin + c * 8 < HS) values[c] += weight * lines[i * line_of(HS) + begin + c * 8];
      }
    }
  }
  template <class T>
  __device__ void write(T *destination, int64_t stride, int first, int end, int HS, float scale) const {
    if (first + line >= end) return;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
      if (begin + c * 8 < HS) destination[(first + line) * stride + begin + c * 8] = from_float<T>(values[c] * scale);
    }
  }
};

__device__ __forceinline__ float sum_of_8(float value) {
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

template <class T, int COLUMNS>
__global__ void __launch_bounds__(threads)
    forward_any_kernel(T *out, float *lse, const T *qkv, AttentionSizes sizes, float scale) {
  extern __shared__ float memory[];
  __shared__ float score[tile][tile + 1];
  const int HS = sizes.HS, t = sizes.T;
  float *q_tile = memory, *k_tile = q_tile + tile * line_of(HS), *v_tile = k_tile + tile * line_of(HS);
  const HeadBlock unit(sizes, tile);
  const int first = unit.block * tile;
  const T *q = qkv + sizes.qkv_at(unit.b, unit.head), *k = q + sizes.C, *v = k + sizes.C;
  copy_tile(q_tile, q, sizes.stride(), first, t, HS);
  Line<COLUMNS> result;
  const int row = first + result.line, begin = sizes.mask.first_key(unit.b, row, sizes.T);
  float maximum = -INFINITY, sum = 0;
  const int key_tile = sizes.mask.first_key(unit.b, first, t) / tile;
  for (int key0 = key_tile * tile; key0 < min(first + tile, t); key0 += tile) {
    __syncthreads();
    copy_tile(k_tile, k, sizes.stride(), key0, t, HS);
    copy_tile(v_tile, v, sizes.stride(), key0, t, HS);
    __syncthreads();
    Cell cell;
    cell.add_products(q_tile, k_tile, HS);
    for (int i = 0; i < 4; i++) {
      score[cell.row + i / 2 * 16][cell.column + i % 2 * 16] = cell.values[i / 2][i % 2] * scale;
    }
    __syncthreads();
    // 8 threads share the 32 scores of a query, 4 each.
    float mine[tile / 8], top = maximum;
#pragma unroll
    for (int i = 0; i < tile / 8; i++) {
      const int key = result.begin + i * 8;
      mine[i] = key0 + key >= begin && key0 + key <= row ? score[result.line][key] : -INFINITY;
      top = fmaxf(top, mine[i]);
    }
#pragma unroll
    for (int offset = 4; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, offset));
    // If all keys so far were masked, `top` is -inf; base 0 then makes every exponential 0 instead of NaN.
    const float base = top == -INFINITY ? 0.0f : top;
    const float shrink = expf(maximum - base);
    maximum = top;
    float total = 0;
#pragma unroll
    for (int i = 0; i < tile / 8; i++) {
      mine[i] = expf(mine[i] - base);
      total += mine[i];
      score[result.line][result.begin + i * 8] = mine[i];
    }
    sum = sum * shrink + sum_of_8(total);
    __syncwarp();
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) result.values[c] *= shrink;
    result.add_weighted(score[result.line], 1, v_tile, HS);
  }
  result.write(out + sizes.out_at(unit.b, unit.head), sizes.C, first, t, HS, 1.0f / sum);
  if (result.begin == 0 && row < t) lse[unit.statistics + row] = maximum + logf(sum);
}

// Computes `share` = P and `dscore` = dS (attention.cuh) of a tile from its Q K^T and dout V^T. Both are 0 where the
// query does not attend to the key.
__device__ __forceinline__ void shares_of_tile(float (*share)[tile + 1], float (*dscore)[tile + 1], const Cell &scores,
                                               const Cell &dshares, const float *lse, const float *D, int query0,
                                               int key0, const AttentionSizes &sizes, int b, float scale) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int row = scores.row + i / 2 * 16, column = scores.column + i % 2 * 16;
    const int query = query0 + row;
    float p = 0, ds = 0;
    if (query < sizes.T && key0 + column <= query && key0 + column >= sizes.mask.first_key(b, query, sizes.T)) {
      p = expf(scores.values[i / 2][i % 2] * scale - lse[query]);
      ds = p * (dshares.values[i / 2][i % 2] - D[query]);
    }
    share[row][column] = p;
    dscore[row][column] = ds;
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    products_kernel(float *D, const T *dout, const T *out, AttentionSizes sizes) {
  const int lane = threadIdx.x % 32;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
  if (line >= static_cast<int64_t>(sizes.B) * sizes.NH * sizes.T) return;
  const int t = static_cast<int>(line % sizes.T);
  const int head = static_cast<int>(line / sizes.T % sizes.NH), b = static_cast<int>(line / sizes.T / sizes.NH);
  const int64_t at = sizes.out_at(b, head) + static_cast<int64_t>(t) * sizes.C;
  float sum = 0;
  for (int c = lane; c < sizes.HS; c += 32) sum += to_float(dout[at + c]) * to_float(out[at + c]);
  sum = warp_sum(sum);
  if (lane == 0) D[line] = sum;
}

// With OWNS_KEYS a block computes dk and dv of a tile of keys, else dq of a tile of queries.
template <bool OWNS_KEYS, class T, int COLUMNS>
__global__ void __launch_bounds__(threads)
    backward_any_kernel(T *dqkv, const float *D, const T *dout, const T *qkv, const float *lse, AttentionSizes sizes,
                        float scale) {
  extern __shared__ float memory[];
  __shared__ float share[tile][tile + 1], dscore[tile][tile + 1];
  const int HS = sizes.HS, t = sizes.T;
  float *q_tile = memory, *dout_tile = q_tile + tile * line_of(HS);
  float *k_tile = dout_tile + tile * line_of(HS), *v_tile = k_tile + tile * line_of(HS);
  const HeadBlock unit(sizes, tile);
  const int first = unit.block * tile;
  const T *q = qkv + sizes.qkv_at(unit.b, unit.head), *k = q + sizes.C, *v = k + sizes.C;
  const auto copy_keys = [&](int key0) {
    copy_tile(k_tile, k, sizes.stride(), key0, t, HS);
    copy_tile(v_tile, v, sizes.stride(), key0, t, HS);
  };
  const auto copy_queries = [&](int query0) {
    copy_tile(q_tile, q, sizes.stride(), query0, t, HS);
    copy_tile(dout_tile, dout + sizes.out_at(unit.b, unit.head), sizes.C, query0, t, HS);
  };
  OWNS_KEYS ? copy_keys(first) : copy_queries(first);
  Line<COLUMNS> result, dvalue;
  const int begin = OWNS_KEYS ? first : sizes.mask.first_key(unit.b, first, t) / tile * tile;
  const int end = OWNS_KEYS ? sizes.mask.last_query(unit.b, first + tile - 1, t) + 1 : min(first + tile, t);
  for (int other = begin; other < end; other += tile) {
    __syncthreads();
    OWNS_KEYS ? copy_queries(other) : copy_keys(other);
    __syncthreads();
    Cell scores, dshares;
    scores.add_products(q_tile, k_tile, HS);
    dshares.add_products(dout_tile, v_tile, HS);
    shares_of_tile(share, dscore, scores, dshares, lse + unit.statistics, D + unit.statistics,
                   OWNS_KEYS ? other : first, OWNS_KEYS ? first : other, sizes, unit.b, scale);
    __syncthreads();
    if constexpr (OWNS_KEYS) {
      dvalue.add_weighted(&share[0][dvalue.line], tile + 1, dout_tile, HS);
      result.add_weighted(&dscore[0][result.line], tile + 1, q_tile, HS);
    } else {
      result.add_weighted(dscore[result.line], 1, k_tile, HS);
    }
  }
  T *d = dqkv + sizes.qkv_at(unit.b, unit.head) + (OWNS_KEYS ? sizes.C : 0);
  result.write(d, sizes.stride(), first, t, HS, scale);
  if constexpr (OWNS_KEYS) dvalue.write(d + sizes.C, sizes.stride(), first, t, HS, 1.0f);
}

}  // namespace gpt2::attention_any
