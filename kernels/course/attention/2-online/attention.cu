// Attention that stores no scores. A warp takes one query and goes through its keys, with the maximum of the scores so far and sums
// relative to it: when the maximum grows, the sums so far shrink. Backward computes the probabilities again, from lse; a warp takes a
// query and sums over keys, or takes a key and sums over queries, so that each sum has one owner.
#include "../heads.cuh"

constexpr int warps = 8;  // of a block

// A row of a head, PARTS elements in each lane: lane, lane + 32, ...; zeros past the end.
template <int PARTS>
struct Row {
  float values[PARTS] = {};

  __device__ void read(const element *from, int HS) {
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const int d = i * 32 + threadIdx.x % 32;
      values[i] = d < HS ? static_cast<float>(from[d]) : 0.0f;
    }
  }
  __device__ void write(element *to, int HS, float factor) const {
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const int d = i * 32 + threadIdx.x % 32;
      if (d < HS) to[d] = static_cast<element>(values[i] * factor);
    }
  }
  // values = values * factor + other * weight
  __device__ void add(float factor, const Row &other, float weight) {
#pragma unroll
    for (int i = 0; i < PARTS; i++) values[i] = values[i] * factor + other.values[i] * weight;
  }
};

// The dot product of two rows, in all lanes.
template <int PARTS>
__device__ float dot(const Row<PARTS> &a, const Row<PARTS> &b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < PARTS; i++) sum += a.values[i] * b.values[i];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  return sum;
}

// The row of [B,NH,T] that the thread's warp computes.
__device__ int own_row() { return blockIdx.x * warps + threadIdx.x / 32; }

template <int PARTS>
__global__ void attention_forward(element *out, float *lse, const element *qkv, int rows, int T, int NH, int HS) {
  const int row = own_row(), head = row / T, t = row % T;
  if (row >= rows) return;
  const auto keys = rows_of(qkv, 1, head, T, NH, HS), values = rows_of(qkv, 2, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  Row<PARTS> query, key, value, result;
  query.read(rows_of(qkv, 0, head, T, NH, HS)[t], HS);
  float largest = -INFINITY, sum = 0;
  for (int s = 0; s <= t; s++) {
    key.read(keys[s], HS);
    value.read(values[s], HS);
    const float score = dot(query, key) * scale, before = largest;
    largest = fmaxf(before, score);
    const float shrink = expf(before - largest), weight = expf(score - largest);
    sum = sum * shrink + weight;
    result.add(shrink, value, weight);
  }
  result.write(rows_of(out, head, T, NH, HS)[t], HS, 1 / sum);
  if (threadIdx.x % 32 == 0) lse[row] = largest + logf(sum);
}

// dq[t] = sum over s <= t of dscore[t,s] * k[s]; D[t] = dout[t] . out[t], which the keys' kernel reads.
template <int PARTS>
__global__ void attention_backward_queries(element *dqkv, float *D, const element *dout, const element *out, const element *qkv,
                                           const float *lse, int rows, int T, int NH, int HS) {
  const int row = own_row(), head = row / T, t = row % T;
  if (row >= rows) return;
  const auto keys = rows_of(qkv, 1, head, T, NH, HS), values = rows_of(qkv, 2, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  Row<PARTS> query, gradient, key, value, dquery;
  query.read(rows_of(qkv, 0, head, T, NH, HS)[t], HS);
  gradient.read(rows_of(dout, head, T, NH, HS)[t], HS);
  value.read(rows_of(out, head, T, NH, HS)[t], HS);
  const float own_D = dot(gradient, value);
  if (threadIdx.x % 32 == 0) D[row] = own_D;
  for (int s = 0; s <= t; s++) {
    key.read(keys[s], HS);
    value.read(values[s], HS);
    const float probability = expf(dot(query, key) * scale - lse[row]);
    dquery.add(1, key, probability * (dot(gradient, value) - own_D));
  }
  dquery.write(rows_of(dqkv, 0, head, T, NH, HS)[t], HS, scale);
}

// dk[s] = sum over t >= s of dscore[t,s] * q[t]; dv[s] = sum over t >= s of probability[t,s] * dout[t]
template <int PARTS>
__global__ void attention_backward_keys(element *dqkv, const float *D, const element *dout, const element *qkv, const float *lse,
                                        int rows, int T, int NH, int HS) {
  const int row = own_row(), head = row / T, s = row % T;
  if (row >= rows) return;
  const auto queries = rows_of(qkv, 0, head, T, NH, HS);
  const auto gradients = rows_of(dout, head, T, NH, HS);
  const float scale = rsqrtf(static_cast<float>(HS));
  Row<PARTS> key, value, query, gradient, dkey, dvalue;
  key.read(rows_of(qkv, 1, head, T, NH, HS)[s], HS);
  value.read(rows_of(qkv, 2, head, T, NH, HS)[s], HS);
  for (int t = s; t < T; t++) {
    query.read(queries[t], HS);
    gradient.read(gradients[t], HS);
    const float probability = expf(dot(query, key) * scale - lse[head * T + t]);
    dvalue.add(1, gradient, probability);
    dkey.add(1, query, probability * (dot(gradient, value) - D[head * T + t]));
  }
  dkey.write(rows_of(dqkv, 1, head, T, NH, HS)[s], HS, scale);
  dvalue.write(rows_of(dqkv, 2, head, T, NH, HS)[s], HS, 1);
}
