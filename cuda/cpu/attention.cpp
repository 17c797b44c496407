// Causal attention in blocks of queries and keys, by the engine of the context (product.h). The softmax is computed
// online, so there is no T x T matrix; backward recomputes the probabilities from the log-sum-exp. Each thread takes
// whole heads of a sequence, so that the gradients of keys and values are summed in the order of the queries.
#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "math.h"
#include "vectors.h"

namespace gpt2::GPT2_PATH {

namespace {

// A block of 32 x 256 scores fits into L1. A query wastes QUERIES / 2 scores above the diagonal on average.
constexpr int QUERIES = 32;
constexpr int KEYS = 256;
// Floats from a row of scores to the next. Rows a multiple of 4 KiB apart would compete for one cache set of L1.
constexpr int STRIDE = KEYS + 16;
constexpr int64_t SCORES = QUERIES * STRIDE;

struct Head {
  View q, k, v;  // [T,HS]

  Head(const float *qkv, int b, int h, int T, int C, int HS) {
    const float *origin = qkv + static_cast<size_t>(b) * T * 3 * C + static_cast<size_t>(h) * HS;
    const size_t stride = static_cast<size_t>(3) * C;
    q = {origin, stride, 1};
    k = {origin + C, stride, 1};
    v = {origin + 2 * C, stride, 1};
  }
};

// The keys that a query attends to. In a block of `count` keys from key u on, query t attends to keys u + [begin, end).
struct Visible {
  const int32_t *first;  // each query's first key, or NULL

  Visible(const int32_t *all, int b, int T) : first(all ? all + static_cast<size_t>(b) * T : nullptr) {}
  // The first key of the first block of keys that queries from t on attend to.
  int block(int t) const { return first ? first[t] / KEYS * KEYS : 0; }
  int begin(int t, int u, int count) const { return first ? std::max(0, std::min(count, first[t] - u)) : 0; }
  static int end(int t, int u, int count) { return std::max(0, std::min(count, t + 1 - u)); }
};

// Rounds up to a multiple of 96, and so of any engine's tile (48, 32 or less): copied blocks have whole tiles.
int64_t padded(int count) { return (static_cast<int64_t>(count) + 95) / 96 * 96; }

// The number of keys in the block that begins at key u.
int keys_from(int u, int T) { return std::min(KEYS, T - u); }

// Floats that the copied blocks of T keys take; with T = u, the offset of the block that begins at key u.
int64_t head_floats(int T, int HS) {
  return copied_floats((T / KEYS * padded(KEYS) + padded(T % KEYS)) * padded(HS));
}

// Copies `rows` [T,HS] (k or v) in blocks of keys, as operand B of matmuls that sum over HS: q k^T and dout v^T.
struct ByChannel {
  const Engine &engine;
  float *memory;
  int T, HS;

  const float *at(int u, int i) const {
    return memory + head_floats(u, HS) + copied_floats(padded(keys_from(u, T)) * i);
  }

  void copy(View rows) const {
    for (int u = 0; u < T; u += KEYS) {
      for (int i = 0; i < HS; i += engine.block_k) {
        engine.copy_b(const_cast<float *>(at(u, i)), rows, u, keys_from(u, T), i, std::min(engine.block_k, HS - i));
      }
    }
  }

  // scores[count, keys] = a[first : first + count] * rows[u : u + keys]^T, with the `rows` that copy() stored.
  void multiply(float *scores, float *block, View a, int first, int count, int u, int keys) const {
    for (int i = 0; i < HS; i += engine.block_k) {
      const int depth = std::min(engine.block_k, HS - i);
      engine.multiply({scores, STRIDE, i > 0}, engine.copy_a(block, a, first, count, i, depth), {at(u, i), depth},
                      depth, count, keys, {});
    }
  }
};

// Copies `rows` [T,HS] in blocks of keys, as operand B of matmuls that sum over keys: out and dq.
struct ByKey {
  const Engine &engine;
  float *memory;
  int T, HS;

  void copy(View rows) const {
    for (int u = 0; u < T; u += KEYS) {
      engine.copy_b(memory + head_floats(u, HS), rows.transposed(), 0, HS, u, keys_from(u, T));
    }
  }

  // out[count, HS] (=|+=) scores[count, keys] * rows[u : u + keys], with the `rows` that copy() stored.
  void multiply(Output out, float *block, const float *scores, int count, int u, int keys) const {
    engine.multiply(out, engine.copy_a(block, {scores, STRIDE, 1}, 0, count, 0, keys),
                    {memory + head_floats(u, HS), keys_from(u, T)}, keys, count, HS, {});
  }
};

// Rounds up to whole vectors. Loops over part of a row of scores run to the end of a vector, inside the row's memory,
// because single elements at the end would be slow.
int whole_vectors(int count) { return (count + WIDTH - 1) / WIDTH * WIDTH; }

// row = exp(scale * row - m) for `count` scores, with m the maximum of `high` and scale * row; returns m. The rest of
// the last vector becomes 0. Not inlined, because GCC would not vectorise it.
__attribute__((noinline)) float exponentials(float *__restrict row, int count, float scale, float high) {
  const int whole = whole_vectors(count);
  std::fill(row + count, row + whole, -INFINITY);
#pragma omp simd reduction(max : high)
  for (int j = 0; j < whole; j++) high = row[j] * scale > high ? row[j] * scale : high;
#pragma omp simd
  for (int j = 0; j < whole; j++) row[j] = exponential(row[j] * scale - high);
  return high;
}

// sums[i] = the sum of row i of `rows` [count,columns], in order. Takes 8 rows at a time to hide an addition's latency.
void add_rows(float *sums, const float *rows, int count, int columns) {
  for (int first = 0; first < count; first += 8) {
    float total[8] = {};
    const int last = std::min(8, count - first);
    for (int j = 0; j < columns; j++) {
      for (int i = 0; i < last; i++) total[i] += rows[(first + i) * STRIDE + j];
    }
    std::copy_n(total, last, sums + first);
  }
}

// Floats of scratch for a thread: copies of k and v and, in backward, a second copy of k; a block of q and one of dout;
// scores and their gradients; a block of A; two floats for each query.
int64_t scratch_of_thread(int T, int HS) {
  return 3 * head_floats(T, HS) + 2 * head_floats(QUERIES, HS) + 2 * SCORES + A_FLOATS + 2 * QUERIES;
}

}  // namespace

int64_t attention_scratch(int threads, int, int T, int C, int NH) { return threads * scratch_of_thread(T, C / NH); }

void attention_forward(Task task, float *out, float *lse, const float *qkv, const int32_t *first, int B, int T, int C,
                       int NH) {
  const int HS = C / NH;
  const float scale = 1.0f / std::sqrt(static_cast<float>(HS));
  const Engine &engine = *task.engine;
  // Queries of a step. Backward has steps of 32: with 16 its sums over a step's queries would have other bits, and it
  // would be slower from T = 1024 on.
  const int step = std::max(16, engine.tile_m);
  task.pool.each_free(B * NH, [&](int64_t bh, int thread) {
    const int b = bh / NH, h = bh % NH;
    const Head head(qkv, b, h, T, C, HS);
    const Visible keys_of(first, b, T);
    float *memory = task.scratch + thread * scratch_of_thread(T, HS);
    const ByChannel keys{engine, memory, T, HS};
    const ByKey values{engine, keys.memory + head_floats(T, HS), T, HS};
    float *scores = values.memory + head_floats(T, HS), *block = scores + SCORES;
    float *largest = block + A_FLOATS, *sum = largest + QUERIES;
    keys.copy(head.k);
    values.copy(head.v);
    for (int t = 0; t < T; t += step) {
      const int queries = std::min(step, T - t);
      float *o = out + (static_cast<size_t>(b) * T + t) * C + static_cast<size_t>(h) * HS;
      std::fill(largest, largest + queries, -INFINITY);
      std::fill(sum, sum + queries, 0.0f);
      const int begin = keys_of.block(t);
      for (int u = begin; u < t + queries; u += KEYS) {
        const int count = std::min(KEYS, t + queries - u);
        keys.multiply(scores, block, head.q, t, queries, u, count);
        float before[QUERIES], totals[QUERIES] = {};
        for (int i = 0; i < queries; i++) {
          float *row = scores + i * STRIDE;
          const int hidden = keys_of.begin(t + i, u, count), visible = Visible::end(t + i, u, count);
          before[i] = largest[i];
          if (hidden < visible) largest[i] = exponentials(row + hidden, visible - hidden, scale, largest[i]);
          std::fill(row, row + hidden, 0.0f);
          std::fill(row + visible, row + count, 0.0f);
        }
        add_rows(totals, scores, queries, count);
        for (int i = 0; i < queries; i++) {
          if (largest[i] == -INFINITY) continue;
          const float factor = exponential(before[i] - largest[i]);
          sum[i] = sum[i] * factor + totals[i];
          if (u > begin && factor != 1) {
            for (int j = 0; j < HS; j++) o[static_cast<size_t>(i) * C + j] *= factor;
          }
        }
        values.multiply({o, static_cast<size_t>(C), u > begin}, block, scores, queries, u, count);
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
                        const int32_t *first, int B, int T, int C, int NH) {
  const int HS = C / NH;
  const float scale = 1.0f / std::sqrt(static_cast<float>(HS));
  const Engine &engine = *task.engine;
  const int step = QUERIES / engine.tile_m * engine.tile_m;
  task.pool.each_free(B * NH, [&](int64_t bh, int thread) {
    const int b = bh / NH, h = bh % NH;
    const Head head(qkv, b, h, T, C, HS);
    const Visible keys_of(first, b, T);
    const size_t stride = head.q.row_stride, row = C;
    const size_t origin = static_cast<size_t>(b) * T * row + static_cast<size_t>(h) * HS;
    const View douts{dout + origin, row, 1};
    const ByChannel keys{engine, task.scratch + thread * scratch_of_thread(T, HS), T, HS};
    const ByChannel values{engine, keys.memory + head_floats(T, HS), T, HS};
    const ByKey keys_of_sums{engine, values.memory + head_floats(T, HS), T, HS};
    float *q_memory = keys_of_sums.memory + head_floats(T, HS), *d_memory = q_memory + head_floats(QUERIES, HS);
    float *p = d_memory + head_floats(QUERIES, HS), *ds = p + SCORES, *block = ds + SCORES;
    keys.copy(head.k);
    values.copy(head.v);
    keys_of_sums.copy(head.k);
    float *dq = dqkv + (static_cast<const float *>(head.q.data) - qkv), *dk = dq + C, *dv = dk + C;
    for (int t = 0; t < T; t++) {
      std::fill_n(dk + t * stride, HS, 0.0f);
      std::fill_n(dv + t * stride, HS, 0.0f);
    }
    for (int t = 0; t < T; t += step) {
      const int queries = std::min(step, T - t);
      const Block q = engine.copy_b(q_memory, head.q.transposed(), 0, HS, t, queries);
      const Block d = engine.copy_b(d_memory, douts.transposed(), 0, HS, t, queries);
      const int begin = keys_of.block(t);
      for (int u = begin; u < t + queries; u += KEYS) {
        const int count = std::min(KEYS, t + queries - u);
        keys.multiply(p, block, head.q, t, queries, u, count);
        values.multiply(ds, block, douts, t, queries, u, count);
        for (int i = 0; i < queries; i++) {
          float *__restrict p_row = p + i * STRIDE, *__restrict ds_row = ds + i * STRIDE;
          const int hidden = keys_of.begin(t + i, u, count), visible = Visible::end(t + i, u, count);
          const float D = dot(dout + origin + (t + i) * row, out + origin + (t + i) * row, HS);
          const float l = lse[static_cast<size_t>(bh) * T + t + i];
#pragma omp simd
          for (int j = hidden; j < hidden + whole_vectors(visible - hidden); j++) {
            p_row[j] = exponential(p_row[j] * scale - l);
            ds_row[j] = p_row[j] * (ds_row[j] - D) * scale;
          }
          std::fill(p_row, p_row + hidden, 0.0f);
          std::fill(ds_row, ds_row + hidden, 0.0f);
          std::fill(p_row + visible, p_row + count, 0.0f);
          std::fill(ds_row + visible, ds_row + count, 0.0f);
        }
        // Adds ds^T q to dk and p^T dout to dv: matmuls whose operand A is transposed.
        const auto add = [&](float *sums, const float *weights, Block rows) {
          const Block copy = engine.copy_a(block, {weights, 1, STRIDE}, 0, count, 0, queries);
          engine.multiply({sums + u * stride, stride, true}, copy, rows, queries, count, HS, {});
        };
        keys_of_sums.multiply({dq + t * stride, stride, u > begin}, block, ds, queries, u, count);
        add(dk, ds, q);
        add(dv, p, d);
      }
    }
  });
}

}  // namespace gpt2::GPT2_PATH
