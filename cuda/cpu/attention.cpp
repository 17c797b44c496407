// Causal attention, one query at a time; each thread takes whole heads of a sequence, so that the gradients of keys and
// values are summed in the order of the queries. Keys and values are transposed once per head ([HS][T]), so that every
// inner loop runs over contiguous memory. There is no T x T matrix: backward recomputes the probabilities from the
// log-sum-exp.
#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

struct Head {
  size_t stride;  // floats from one position to the next in qkv
  const float *q, *k, *v;
};

Head head_of(const float *qkv, int b, int h, int T, int C, int HS) {
  const float *q = qkv + static_cast<size_t>(b) * T * 3 * C + static_cast<size_t>(h) * HS;
  return {static_cast<size_t>(3) * C, q, q + C, q + 2 * C};
}

void transpose(float *out, const float *in, size_t stride, int T, int HS) {
  for (int t = 0; t < T; t++) {
    for (int i = 0; i < HS; i++) out[static_cast<size_t>(i) * T + t] = in[t * stride + i];
  }
}

// products[u] = scale * sum over i of row[i] * columns[i][u], for u < count.
void products_with(float *__restrict products, const float *__restrict row, const float *__restrict columns,
                   float scale, int count, int T, int HS) {
  for (int u = 0; u < count; u++) products[u] = 0;
  for (int i = 0; i < HS; i++) {
    const float value = row[i] * scale;
    const float *__restrict column = columns + static_cast<size_t>(i) * T;
    for (int u = 0; u < count; u++) products[u] += value * column[u];
  }
}

// sum[i] += factor * values[i]. The two do not overlap, so the compiler can vectorise it.
void add_scaled(float *__restrict sum, float factor, const float *__restrict values, int count) {
  for (int i = 0; i < count; i++) sum[i] += factor * values[i];
}

int64_t scratch_of_thread(int T, int HS) { return 2 * static_cast<int64_t>(T) * HS + 2 * static_cast<int64_t>(T); }

}  // namespace

int64_t attention_scratch(int threads, int, int T, int C, int NH) { return threads * scratch_of_thread(T, C / NH); }

void attention_forward(Task task, float *out, float *lse, const float *qkv, int B, int T, int C, int NH) {
  const int HS = C / NH;
  const float scale = 1.0f / std::sqrt(static_cast<float>(HS));
  task.pool.each_free(B * NH, [&](int64_t bh, int thread) {
    const int b = bh / NH;
    const int h = bh % NH;
    const Head head = head_of(qkv, b, h, T, C, HS);
    float *keys = task.scratch + thread * scratch_of_thread(T, HS);
    float *scores = keys + static_cast<size_t>(T) * HS;
    transpose(keys, head.k, head.stride, T, HS);
    for (int t = 0; t < T; t++) {
      products_with(scores, head.q + t * head.stride, keys, scale, t + 1, T, HS);
      float largest = scores[0];
      for (int u = 1; u <= t; u++) largest = std::max(largest, scores[u]);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int u = 0; u <= t; u++) {
        scores[u] = exponential(scores[u] - largest);
        sum += scores[u];
      }
      lse[static_cast<size_t>(bh) * T + t] = largest + std::log(sum);
      float *o = out + (static_cast<size_t>(b) * T + t) * C + static_cast<size_t>(h) * HS;
      for (int i = 0; i < HS; i++) o[i] = 0;
      const float share = 1.0f / sum;
      for (int u = 0; u <= t; u++) add_scaled(o, scores[u] * share, head.v + u * head.stride, HS);
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
    const int b = bh / NH;
    const int h = bh % NH;
    const Head head = head_of(qkv, b, h, T, C, HS);
    float *keys = task.scratch + thread * scratch_of_thread(T, HS);
    float *values = keys + static_cast<size_t>(T) * HS;
    float *p = values + static_cast<size_t>(T) * HS;
    float *ds = p + T;
    transpose(keys, head.k, head.stride, T, HS);
    transpose(values, head.v, head.stride, T, HS);
    float *dq = dqkv + (head.q - qkv);
    float *dk = dqkv + (head.k - qkv);
    float *dv = dqkv + (head.v - qkv);
    for (int t = 0; t < T; t++) {
      for (int i = 0; i < HS; i++) dq[t * head.stride + i] = dk[t * head.stride + i] = dv[t * head.stride + i] = 0;
    }
    for (int t = 0; t < T; t++) {
      const size_t row = (static_cast<size_t>(b) * T + t) * C + static_cast<size_t>(h) * HS;
      const float *d = dout + row;
      const float *q = head.q + t * head.stride;
      const float D = dot(d, out + row, HS);
      products_with(p, q, keys, scale, t + 1, T, HS);
      products_with(ds, d, values, 1.0f, t + 1, T, HS);
      const float l = lse[static_cast<size_t>(bh) * T + t];
      for (int u = 0; u <= t; u++) {
        p[u] = exponential(p[u] - l);
        ds[u] = p[u] * (ds[u] - D) * scale;
      }
      for (int u = 0; u <= t; u++) {
        add_scaled(dq + t * head.stride, ds[u], head.k + u * head.stride, HS);
        add_scaled(dk + u * head.stride, ds[u], q, HS);
        add_scaled(dv + u * head.stride, p[u], d, HS);
      }
    }
  });
}

}  // namespace gpt2::GPT2_PATH
