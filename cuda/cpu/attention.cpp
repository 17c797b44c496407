// Causal attention in blocks of queries and keys, by the micro-kernels of product.h. The softmax is computed online, so
// there is no T x T matrix; backward recomputes the probabilities from the log-sum-exp. Each thread takes whole heads of
// a sequence, so that the gradients of keys and values are summed in the order of the queries.
#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "math.h"
#include "product.h"

namespace gpt2::GPT2_PATH {

namespace {

// Scores of 28 x 256 (avx512) fit into L1. Fewer queries waste less work above the diagonal: half a block a query.
constexpr int QUERIES = 2 * TILE_M;
constexpr int KEYS = BLOCK_K;
constexpr int SCORES = QUERIES * A_STRIDE;

struct Head {
  View q, k, v;  // [T,HS]

  Head(const float *qkv, int b, int h, int T, int C, int HS) {
    const float *first = qkv + static_cast<size_t>(b) * T * 3 * C + static_cast<size_t>(h) * HS;
    const size_t stride = static_cast<size_t>(3) * C;
    q = {first, stride, 1};
    k = {first + C, stride, 1};
    v = {first + 2 * C, stride, 1};
  }
};

View transposed(View view) { return {view.data, view.column_stride, view.row_stride}; }

size_t padded(int count) { return static_cast<size_t>(count + TILE_N - 1) / TILE_N * TILE_N; }

// Panels of `rows`^T [HS,T], the B of scores: for each block of keys, for each block of HS.
void pack_keys(float *panels, View rows, int T, int HS) {
  for (int u = 0; u < T; u += KEYS) {
    const int keys = std::min(KEYS, T - u);
    for (int i = 0; i < HS; i += BLOCK_K) {
      const int depth = std::min(BLOCK_K, HS - i);
      pack_b(panels, rows, u, keys, i, depth);
      panels += depth * padded(keys);
    }
  }
}

// The panels of pack_values() for the block from key u on.
Panels values_of(const float *packed, int u, int T, int HS) { return {packed + u * padded(HS), std::min(KEYS, T - u)}; }

// Panels of `rows` [T,HS], the B of sums over keys: for each block of keys.
void pack_values(float *panels, View rows, int T, int HS) {
  for (int u = 0; u < T; u += KEYS) {
    const int keys = std::min(KEYS, T - u);
    pack_b(panels, transposed(rows), 0, HS, u, keys);
    panels += keys * padded(HS);
  }
}

// scores[count, keys] = rows [first .. first + count, HS] * the first keys of the block from key u on, by pack_keys().
void multiply_keys(float *scores, float *block, View rows, int first, int count, const float *packed, int u, int keys,
                   int T, int HS) {
  const float *panels = packed + static_cast<size_t>(u) * HS;
  for (int i = 0; i < HS; i += BLOCK_K) {
    const int depth = std::min(BLOCK_K, HS - i);
    tiles({scores, A_STRIDE, nullptr, i > 0}, copy_a(block, rows, first, count, i, depth), {panels, depth}, depth, count,
          keys);
    panels += depth * padded(std::min(KEYS, T - u));
  }
}

// Keys, values and (backward) keys again as panels, queries and their gradients as panels of one block, three blocks of
// scores or queries, and a float or two for each query.
int64_t scratch_of_thread(int T, int HS) {
  return 3 * static_cast<int64_t>(padded(T)) * padded(HS) + 2 * QUERIES * padded(HS) + 3 * SCORES + T + 2 * QUERIES;
}

}  // namespace

int64_t attention_scratch(int threads, int, int T, int C, int NH) { return threads * scratch_of_thread(T, C / NH); }

void attention_forward(Task task, float *out, float *lse, const float *qkv, int B, int T, int C, int NH) {
  const int HS = C / NH;
  const float scale = 1.0f / std::sqrt(static_cast<float>(HS));
  task.pool.each_free(B * NH, [&](int64_t bh, int thread) {
    const int b = bh / NH, h = bh % NH;
    const Head head(qkv, b, h, T, C, HS);
    float *keys = task.scratch + thread * scratch_of_thread(T, HS);
    float *values = keys + padded(T) * padded(HS), *scores = values + padded(T) * padded(HS);
    float *block = scores + SCORES, *largest = block + SCORES, *sum = largest + QUERIES;
    pack_keys(keys, head.k, T, HS);
    pack_values(values, head.v, T, HS);
    for (int t = 0; t < T; t += QUERIES) {
      const int queries = std::min(QUERIES, T - t);
      float *o = out + (static_cast<size_t>(b) * T + t) * C + static_cast<size_t>(h) * HS;
      std::fill(largest, largest + queries, -INFINITY);
      std::fill(sum, sum + queries, 0.0f);
      for (int u = 0; u < t + queries; u += KEYS) {
        const int count = std::min(KEYS, t + queries - u);
        multiply_keys(scores, block, head.q, t, queries, keys, u, count, T, HS);
        for (int i = 0; i < queries; i++) {
          float *row = scores + i * A_STRIDE;
          const int visible = std::max(0, std::min(count, t + i + 1 - u));
          float high = largest[i];
#pragma omp simd reduction(max : high)
          for (int j = 0; j < visible; j++) high = std::max(high, row[j] * scale);
          float total = 0;
#pragma omp simd reduction(+ : total)
          for (int j = 0; j < visible; j++) {
            row[j] = exponential(row[j] * scale - high);
            total += row[j];
          }
          std::fill(row + visible, row + count, 0.0f);
          const float factor = exponential(largest[i] - high);
          sum[i] = sum[i] * factor + total;
          largest[i] = high;
          if (u > 0 && factor != 1) {
            for (int j = 0; j < HS; j++) o[static_cast<size_t>(i) * C + j] *= factor;
          }
        }
        tiles({o, static_cast<size_t>(C), nullptr, u > 0}, {scores, false}, values_of(values, u, T, HS), count, queries, HS);
      }
      for (int i = 0; i < queries; i++) {
        lse[static_cast<size_t>(bh) * T + t + i] = largest[i] + std::log(sum[i]);
        const float share = 1.0f / sum[i];
        for (int j = 0; j < HS; j++) o[static_cast<size_t>(i) * C + j] *= share;
      }
    }
  });
}

// With p the probabilities of a query, dp[u] = dout . v[u] and D = sum of p * dp = dout . out:
//   ds = p * (dp - D);  dq = scale * ds K;  dk[u] += scale * ds[u] q;  dv[u] += p[u] dout.
void attention_backward(Task task, float *dqkv, const float *dout, const float *out, const float *qkv, const float *lse,
                        int B, int T, int C, int NH) {
  const int HS = C / NH;
  const float scale = 1.0f / std::sqrt(static_cast<float>(HS));
  task.pool.each_free(B * NH, [&](int64_t bh, int thread) {
    const int b = bh / NH, h = bh % NH;
    const Head head(qkv, b, h, T, C, HS);
    const size_t head_floats = padded(T) * padded(HS), stride = head.q.row_stride, row = static_cast<size_t>(C);
    const size_t first = static_cast<size_t>(b) * T * row + static_cast<size_t>(h) * HS;
    const View douts{dout + first, row, 1};
    float *keys = task.scratch + thread * scratch_of_thread(T, HS);
    float *values = keys + head_floats, *keys_of_sums = values + head_floats;
    float *queries_of_sums = keys_of_sums + head_floats, *douts_of_sums = queries_of_sums + QUERIES * padded(HS);
    float *p = douts_of_sums + QUERIES * padded(HS), *ds = p + SCORES, *block = ds + SCORES;
    pack_keys(keys, head.k, T, HS);
    pack_keys(values, head.v, T, HS);
    pack_values(keys_of_sums, head.k, T, HS);
    float *dq = dqkv + (head.q.data - qkv), *dk = dq + C, *dv = dk + C;
    for (int t = 0; t < T; t++) {
      std::fill_n(dk + t * stride, HS, 0.0f);
      std::fill_n(dv + t * stride, HS, 0.0f);
    }
    for (int t = 0; t < T; t += QUERIES) {
      const int queries = std::min(QUERIES, T - t);
      const Panels q_of_sums = pack_b(queries_of_sums, transposed(head.q), 0, HS, t, queries);
      const Panels d_of_sums = pack_b(douts_of_sums, transposed(douts), 0, HS, t, queries);
      for (int u = 0; u < t + queries; u += KEYS) {
        const int count = std::min(KEYS, t + queries - u);
        multiply_keys(p, block, head.q, t, queries, keys, u, count, T, HS);
        multiply_keys(ds, block, douts, t, queries, values, u, count, T, HS);
        for (int i = 0; i < queries; i++) {
          float *__restrict p_row = p + i * A_STRIDE, *__restrict ds_row = ds + i * A_STRIDE;
          const int visible = std::max(0, std::min(count, t + i + 1 - u));
          const float D = dot(dout + first + (t + i) * row, out + first + (t + i) * row, HS);
          const float l = lse[static_cast<size_t>(bh) * T + t + i];
#pragma omp simd
          for (int j = 0; j < visible; j++) {
            p_row[j] = exponential(p_row[j] * scale - l);
            ds_row[j] = p_row[j] * (ds_row[j] - D) * scale;
          }
          std::fill(p_row + visible, p_row + count, 0.0f);
          std::fill(ds_row + visible, ds_row + count, 0.0f);
        }
        tiles({dq + t * stride, stride, nullptr, u > 0}, {ds, false}, values_of(keys_of_sums, u, T, HS), count, queries,
              HS);
        tiles({dk + u * stride, stride, nullptr, true}, {ds, true}, q_of_sums, queries, count, HS);
        tiles({dv + u * stride, stride, nullptr, true}, {p, true}, d_of_sums, queries, count, HS);
      }
    }
  });
}

}  // namespace gpt2::GPT2_PATH
