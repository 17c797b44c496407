// Flash attention on tensor cores: a block takes 64 queries. While it multiplies one block of keys and values, the next is copied.
#include "tiles.cuh"

template <int WIDTH>
struct Memory {
  Tile<lines, WIDTH> queries;
  Tile<others<WIDTH>, WIDTH> keys[2], values[2];
};

template <int WIDTH>
__global__ void __launch_bounds__(threads)
    attention_forward(element *out, float *lse, const element *qkv, int T, int NH, int HS) {
  extern __shared__ float4 memory[];
  auto &shared = *reinterpret_cast<Memory<WIDTH> *>(memory);
  constexpr int step = others<WIDTH>;
  // The last queries, which have the most keys, begin first.
  const int head = blockIdx.x, first = (gridDim.y - 1 - blockIdx.y) * lines, end = min(first + lines, T);
  const auto keys = rows_of(qkv, 1, head, T, NH, HS), values = rows_of(qkv, 2, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  const auto fill = [&](int stage, int key0) {
    shared.keys[stage].fill(keys, key0, T, HS);
    shared.values[stage].fill(values, key0, T, HS);
    __pipeline_commit();
  };
  shared.queries.fill(rows_of(qkv, 0, head, T, NH, HS), first, T, HS);
  fill(0, 0);
  // For the lane's two rows, 8 apart: [0] for numbers 0 and 1 of each result, [1] for numbers 2 and 3.
  float result[WIDTH / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  for (int key0 = 0, stage = 0; key0 < end; key0 += step, stage ^= 1) {
    __pipeline_wait_prior(0);
    // All threads' copies are there, and nobody reads the other stage any more.
    __syncthreads();
    if (key0 + step < end) fill(stage ^ 1, key0 + step);
    float scores[step / 8][4] = {};
    add_products(scores, shared.queries, shared.keys[stage]);
    float most[2] = {largest[0], largest[1]};
#pragma unroll
    for (int j = 0; j < step / 8; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const bool is_seen = key0 + 8 * j + column_of(e) <= first + warp_line() + row_of(e);
        scores[j][e] = is_seen ? scores[j][e] * scale : -INFINITY;
        most[e / 2] = fmaxf(most[e / 2], scores[j][e]);
      }
    }
    float shrink[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
      // Never without a score: every query attends to key 0, in the first block.
      most[row] = largest_of_row(most[row]);
      shrink[row] = __expf(largest[row] - most[row]);
      largest[row] = most[row];
      sum[row] *= shrink[row];
    }
#pragma unroll
    for (int j = 0; j < step / 8; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) sum[e / 2] += scores[j][e] = __expf(scores[j][e] - most[e / 2]);
    }
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) result[j][e] *= shrink[e / 2];
    }
    add_weighted(result, scores, shared.values[stage]);
  }
#pragma unroll
  for (int row = 0; row < 2; row++) {
    const int t = first + warp_line() + row_of(2 * row);
    sum[row] = sum_of_row(sum[row]);
    if (threadIdx.x % 4 == 0 && t < T) lse[head * T + t] = largest[row] + logf(sum[row]);
  }
#pragma unroll
  for (int j = 0; j < WIDTH / 8; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) result[j][e] /= sum[e / 2];
  }
  write(rows_of(out, head, T, NH, HS), result, first, T, HS, 1);
}
