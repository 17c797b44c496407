// Backward of flash attention in two kernels, which compute the probabilities again: one owns 64 queries and sums over keys, the other
// owns 64 keys and sums over queries. Each result has one owner, so nothing is added in memory.
#include "tiles.cuh"

// The tiles of a block: those it owns and those of the other side. One side is queries and dout, the other keys and values.
template <int WIDTH>
struct Memory {
  Tile<WIDTH> queries, gradients, keys, values;
  Tile<64> exchange;
};

// dq = dscores * k; and D[t] = dout[t] . out[t], which the keys' kernel reads.
template <int WIDTH>
__global__ void __launch_bounds__(threads, blocks<WIDTH>)
    attention_backward_queries(element *dqkv, float *D, const element *dout, const element *out, const element *qkv,
                               const float *lse, int T, int NH, int HS) {
  extern __shared__ float4 memory[];
  auto &shared = *reinterpret_cast<Memory<WIDTH> *>(memory);
  const int head = blockIdx.x, first = (gridDim.y - 1 - blockIdx.y) * tile;
  const auto outs = rows_of(out, head, T, NH, HS);
  const auto keys = rows_of(qkv, 1, head, T, NH, HS), values = rows_of(qkv, 2, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  shared.queries.fill(rows_of(qkv, 0, head, T, NH, HS), first, T, HS);
  shared.gradients.fill(rows_of(dout, head, T, NH, HS), first, T, HS);
  __syncthreads();
  float own_D[4], own_lse[4];
  for (int i = 0; i < 4; i++) {
    const int row = 4 * group() + i, t = first + row;
    float sum = 0;
    for (int d = member(); d < HS && t < T; d += 16) sum += shared.gradients.values[row][d] * static_cast<float>(outs[t][d]);
    own_D[i] = sum_of_group(sum);
    own_lse[i] = t < T ? lse[head * T + t] : 0;
    if (member() == 0 && t < T) D[head * T + t] = own_D[i];
  }
  Result<WIDTH> dqueries;
  for (int key0 = 0; key0 < first + tile && key0 < T; key0 += tile) {
    __syncthreads();
    shared.keys.fill(keys, key0, T, HS);
    shared.values.fill(values, key0, T, HS);
    __syncthreads();
    float scores[4][4] = {}, dscores[4][4] = {};
    add_products(scores, shared.queries, shared.keys);
    add_products(dscores, shared.gradients, shared.values);
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const bool is_seen = key0 + member() + 16 * j <= first + 4 * group() + i;
        const float probability = is_seen ? expf(scores[i][j] * scale - own_lse[i]) : 0;
        dscores[i][j] = probability * (dscores[i][j] - own_D[i]);
      }
    }
    dqueries.add(dscores, shared.exchange, shared.keys);
  }
  dqueries.write(rows_of(dqkv, 0, head, T, NH, HS), first, T, HS, scale);
}

// dk = dscores^T * q, dv = probabilities^T * dout
template <int WIDTH>
__global__ void __launch_bounds__(threads, blocks<WIDTH>)
    attention_backward_keys(element *dqkv, const float *D, const element *dout, const element *qkv, const float *lse, int T,
                            int NH, int HS) {
  extern __shared__ float4 memory[];
  auto &shared = *reinterpret_cast<Memory<WIDTH> *>(memory);
  const int head = blockIdx.x, first = blockIdx.y * tile;
  const auto queries = rows_of(qkv, 0, head, T, NH, HS), gradients = rows_of(dout, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  shared.keys.fill(rows_of(qkv, 1, head, T, NH, HS), first, T, HS);
  shared.values.fill(rows_of(qkv, 2, head, T, NH, HS), first, T, HS);
  Result<WIDTH> dkeys, dvalues;
  for (int query0 = first; query0 < T; query0 += tile) {
    __syncthreads();
    shared.queries.fill(queries, query0, T, HS);
    shared.gradients.fill(gradients, query0, T, HS);
    __syncthreads();
    float scores[4][4] = {}, dscores[4][4] = {};
    add_products(scores, shared.keys, shared.queries);
    add_products(dscores, shared.values, shared.gradients);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int t = query0 + member() + 16 * j;
      const float own_lse = t < T ? lse[head * T + t] : 0, own_D = t < T ? D[head * T + t] : 0;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const bool is_seen = first + 4 * group() + i <= t && t < T;
        scores[i][j] = is_seen ? expf(scores[i][j] * scale - own_lse) : 0;
        dscores[i][j] = scores[i][j] * (dscores[i][j] - own_D);
      }
    }
    dvalues.add(scores, shared.exchange, shared.gradients);
    dkeys.add(dscores, shared.exchange, shared.queries);
  }
  dkeys.write(rows_of(dqkv, 1, head, T, NH, HS), first, T, HS, scale);
  dvalues.write(rows_of(dqkv, 2, head, T, NH, HS), first, T, HS, 1);
}
