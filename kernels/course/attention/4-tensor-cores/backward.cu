// Backward of flash attention on tensor cores, in two kernels that compute the probabilities again: one owns 64 queries and sums over keys,
// the other owns 64 keys and sums over queries. Each result has one owner, so nothing is added in memory.
#include "tiles.cuh"

// The blocks for which an SM has enough registers.
template <int WIDTH>
constexpr int blocks = WIDTH == 64 ? 3 : 2;

// Owned tiles of queries and dout, with tiles of keys and values; or owned tiles of keys and values, with queries, dout, lse and D.
template <int WIDTH>
struct Memory {
  Tile<lines, WIDTH> own[2];
  Tile<others<WIDTH>, WIDTH> other[2][2];  // [stage]
  float lse[2][others<WIDTH>], D[2][others<WIDTH>];
};

// dq = dscores * k; and D[t] = dout[t] . out[t], which the keys' kernel reads.
template <int WIDTH>
__global__ void __launch_bounds__(threads, blocks<WIDTH>)
    attention_backward_queries(element *dqkv, float *D, const element *dout, const element *out, const element *qkv,
                               const float *lse, int T, int NH, int HS) {
  extern __shared__ float4 memory[];
  auto &shared = *reinterpret_cast<Memory<WIDTH> *>(memory);
  auto &[queries, gradients] = shared.own;
  constexpr int step = others<WIDTH>;
  const int head = blockIdx.x, first = (gridDim.y - 1 - blockIdx.y) * lines, end = min(first + lines, T);
  const auto keys = rows_of(qkv, 1, head, T, NH, HS), values = rows_of(qkv, 2, head, T, NH, HS);
  const auto outs = rows_of(out, head, T, NH, HS), douts = rows_of(dout, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  const auto fill = [&](int stage, int key0) {
    shared.other[stage][0].fill(keys, key0, T, HS);
    shared.other[stage][1].fill(values, key0, T, HS);
    __pipeline_commit();
  };
  queries.fill(rows_of(qkv, 0, head, T, NH, HS), first, T, HS);
  gradients.fill(douts, first, T, HS);
  fill(0, 0);
  float own_lse[2], own_D[2];
  for (int row = 0; row < 2; row++) {
    const int t = first + warp_line() + row_of(2 * row);
    float sum = 0;
    for (int d = threadIdx.x % 4; d < HS && t < T; d += 4) sum += static_cast<float>(douts[t][d]) * static_cast<float>(outs[t][d]);
    own_D[row] = sum_of_row(sum);
    own_lse[row] = t < T ? lse[head * T + t] : INFINITY;
    if (threadIdx.x % 4 == 0 && t < T) D[head * T + t] = own_D[row];
  }
  float dqueries[WIDTH / 8][4] = {};
  for (int key0 = 0, stage = 0; key0 < end; key0 += step, stage ^= 1) {
    __pipeline_wait_prior(0);
    __syncthreads();
    if (key0 + step < end) fill(stage ^ 1, key0 + step);
    const auto &[key_tile, value_tile] = shared.other[stage];
    float scores[step / 8][4] = {}, dscores[step / 8][4] = {};
    add_products(scores, queries, key_tile);
    add_products(dscores, gradients, value_tile);
#pragma unroll
    for (int j = 0; j < step / 8; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const bool is_seen = key0 + 8 * j + column_of(e) <= first + warp_line() + row_of(e);
        const float probability = is_seen ? __expf(scores[j][e] * scale - own_lse[e / 2]) : 0;
        dscores[j][e] = probability * (dscores[j][e] - own_D[e / 2]);
      }
    }
    add_weighted(dqueries, dscores, key_tile);
  }
  write(rows_of(dqkv, 0, head, T, NH, HS), dqueries, first, T, HS, scale);
}

// dk = dscores^T * q, dv = probabilities^T * dout. Rows of scores are keys here, and columns queries.
template <int WIDTH>
__global__ void __launch_bounds__(threads, blocks<WIDTH>)
    attention_backward_keys(element *dqkv, const float *D, const element *dout, const element *qkv, const float *lse, int T,
                            int NH, int HS) {
  extern __shared__ float4 memory[];
  auto &shared = *reinterpret_cast<Memory<WIDTH> *>(memory);
  auto &[keys, values] = shared.own;
  constexpr int step = others<WIDTH>;
  const int head = blockIdx.x, first = blockIdx.y * lines;
  const auto queries = rows_of(qkv, 0, head, T, NH, HS), gradients = rows_of(dout, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  const auto fill = [&](int stage, int query0) {
    shared.other[stage][0].fill(queries, query0, T, HS);
    shared.other[stage][1].fill(gradients, query0, T, HS);
    __pipeline_commit();
    if (threadIdx.x < step) {
      const int t = query0 + threadIdx.x;
      shared.lse[stage][threadIdx.x] = t < T ? lse[head * T + t] : INFINITY;  // a probability of 0
      shared.D[stage][threadIdx.x] = t < T ? D[head * T + t] : 0;
    }
  };
  keys.fill(rows_of(qkv, 1, head, T, NH, HS), first, T, HS);
  values.fill(rows_of(qkv, 2, head, T, NH, HS), first, T, HS);
  fill(0, first);
  float dkeys[WIDTH / 8][4] = {}, dvalues[WIDTH / 8][4] = {};
  for (int query0 = first, stage = 0; query0 < T; query0 += step, stage ^= 1) {
    __pipeline_wait_prior(0);
    __syncthreads();
    if (query0 + step < T) fill(stage ^ 1, query0 + step);
    const auto &[query_tile, gradient_tile] = shared.other[stage];
    float scores[step / 8][4] = {}, dscores[step / 8][4] = {};
    add_products(scores, keys, query_tile);
    add_products(dscores, values, gradient_tile);
#pragma unroll
    for (int j = 0; j < step / 8; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int column = 8 * j + column_of(e);
        const bool is_seen = first + warp_line() + row_of(e) <= query0 + column;
        scores[j][e] = is_seen ? __expf(scores[j][e] * scale - shared.lse[stage][column]) : 0;
        dscores[j][e] = scores[j][e] * (dscores[j][e] - shared.D[stage][column]);
      }
    }
    add_weighted(dvalues, scores, gradient_tile);
    add_weighted(dkeys, dscores, query_tile);
  }
  write(rows_of(dqkv, 1, head, T, NH, HS), dkeys, first, T, HS, scale);
  write(rows_of(dqkv, 2, head, T, NH, HS), dvalues, first, T, HS, 1);
}
