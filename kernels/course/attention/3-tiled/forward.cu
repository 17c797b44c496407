// Flash attention: a block takes 64 queries, and reads its keys and values once, 64 at a time. Each number that it reads from memory
// serves 64 queries; each that a thread reads from shared memory, 4 multiplications.
#include "tiles.cuh"

template <int WIDTH>
struct Memory {
  Tile<WIDTH> queries, keys, values;
  Tile<64> exchange;
};

template <int WIDTH>
__global__ void __launch_bounds__(threads, blocks<WIDTH>)
    attention_forward(element *out, float *lse, const element *qkv, int T, int NH, int HS) {
  extern __shared__ float4 memory[];
  auto &shared = *reinterpret_cast<Memory<WIDTH> *>(memory);
  // The last queries, which have the most keys, begin first.
  const int head = blockIdx.x, first = (gridDim.y - 1 - blockIdx.y) * tile;
  const auto keys = rows_of(qkv, 1, head, T, NH, HS), values = rows_of(qkv, 2, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  shared.queries.fill(rows_of(qkv, 0, head, T, NH, HS), first, T, HS);
  Result<WIDTH> result;
  float largest[4], sum[4] = {};
  for (int i = 0; i < 4; i++) largest[i] = -INFINITY;
  for (int key0 = 0; key0 < first + tile && key0 < T; key0 += tile) {
    __syncthreads();  // nobody reads the last tiles any more
    shared.keys.fill(keys, key0, T, HS);
    shared.values.fill(values, key0, T, HS);
    __syncthreads();
    float scores[4][4] = {};
    add_products(scores, shared.queries, shared.keys);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int t = first + 4 * group() + i;
      float most = largest[i];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        scores[i][j] = key0 + member() + 16 * j <= t ? scores[i][j] * scale : -INFINITY;
        most = fmaxf(most, scores[i][j]);
      }
      // Never without a score: every query attends to key 0, in the first tile.
      most = largest_of_group(most);
      const float shrink = expf(largest[i] - most);
      largest[i] = most;
      sum[i] *= shrink;
      result.multiply(i, shrink);
#pragma unroll
      for (int j = 0; j < 4; j++) sum[i] += scores[i][j] = expf(scores[i][j] - most);
    }
    result.add(scores, shared.exchange, shared.values);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int t = first + 4 * group() + i;
    const float all = sum_of_group(sum[i]);
    result.multiply(i, 1 / all);
    if (member() == 0 && t < T) lse[head * T + t] = largest[i] + logf(all);
  }
  result.write(rows_of(out, head, T, NH, HS), first, T, HS, 1);
}
