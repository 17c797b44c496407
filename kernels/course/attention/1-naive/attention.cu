// Causal attention as its formula: all scores of a head are stored, T x T in fp32, which is what later rungs avoid. One thread
// computes one score, one row of the softmax, or one element of a result. ELEMENT is float or __nv_bfloat16. Backward's scratch has
// `count` probabilities, then as many gradients of scores.
//
// A head's queries, keys and values are rows of qkv [B,T,3,NH,HS]; scores are [B,NH,T,T], of which s <= t is used.
#include <cuda_bf16.h>

using element = ELEMENT;

struct Place {
  int b, h, t;
};

// The place of row i of [B,NH,T].
__device__ Place place_of(int i, int T, int NH) { return {i / T / NH, i / T % NH, i % T}; }

// The first element of position t: part 0 is its query, 1 its key, 2 its value.
__device__ size_t offset(int b, int t, int part, int h, int T, int NH, int HS) {
  return ((static_cast<size_t>(b * T + t) * 3 + part) * NH + h) * HS;
}

// scores[b,h,t,s] = q[t] . k[s] / sqrt(HS)
__global__ void attention_scores(float *scores, const element *qkv, int B, int T, int NH, int HS) {
  const int s = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.z * T + blockIdx.y;
  const auto [b, h, t] = place_of(row, T, NH);
  if (s > t) return;
  const element *q = qkv + offset(b, t, 0, h, T, NH, HS), *k = qkv + offset(b, s, 1, h, T, NH, HS);
  float sum = 0;
  for (int d = 0; d < HS; d++) sum += static_cast<float>(q[d]) * static_cast<float>(k[d]);
  scores[static_cast<size_t>(row) * T + s] = sum * rsqrtf(static_cast<float>(HS));
}

// Each row of scores becomes its softmax; lse[row] = log of the sum of its exponentials.
__global__ void attention_softmax(float *scores, float *lse, int rows, int T) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float *own = scores + static_cast<size_t>(row) * T;
  const int t = row % T;
  float largest = own[0], sum = 0;
  for (int s = 1; s <= t; s++) largest = fmaxf(largest, own[s]);
  for (int s = 0; s <= t; s++) sum += expf(own[s] - largest);
  for (int s = 0; s <= t; s++) own[s] = expf(own[s] - largest) / sum;
  lse[row] = largest + logf(sum);
}

// out[b,t,h,d] = sum over s of probability[s] * v[s,d]
__global__ void attention_values(element *out, const float *probabilities, const element *qkv, int T, int NH, int HS) {
  const int d = threadIdx.x, row = blockIdx.x;
  const auto [b, h, t] = place_of(row, T, NH);
  float sum = 0;
  for (int s = 0; s <= t; s++) {
    sum += probabilities[static_cast<size_t>(row) * T + s] * static_cast<float>(qkv[offset(b, s, 2, h, T, NH, HS) + d]);
  }
  out[(static_cast<size_t>(b * T + t) * NH + h) * HS + d] = static_cast<element>(sum);
}

// probabilities[t,s] = exp(score - lse); dscores[t,s] = their gradient, dout[t] . v[s], not yet through the softmax.
__global__ void attention_backward_probabilities(float *probabilities, long long count, const element *dout,
                                                 const element *qkv, const float *lse, int T, int NH, int HS) {
  const int s = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.z * T + blockIdx.y;
  const auto [b, h, t] = place_of(row, T, NH);
  if (s > t) return;
  const element *q = qkv + offset(b, t, 0, h, T, NH, HS), *k = qkv + offset(b, s, 1, h, T, NH, HS);
  const element *v = qkv + offset(b, s, 2, h, T, NH, HS), *d_row = dout + (static_cast<size_t>(b * T + t) * NH + h) * HS;
  float score = 0, d_probability = 0;
  for (int d = 0; d < HS; d++) {
    score += static_cast<float>(q[d]) * static_cast<float>(k[d]);
    d_probability += static_cast<float>(d_row[d]) * static_cast<float>(v[d]);
  }
  float *dscores = probabilities + count;
  const size_t i = static_cast<size_t>(row) * T + s;
  probabilities[i] = expf(score * rsqrtf(static_cast<float>(HS)) - lse[row]);
  dscores[i] = d_probability;
}

// Through the softmax and the scale: dscores = probability * (dscores - dout . out) / sqrt(HS).
__global__ void attention_backward_softmax(float *probabilities, long long count, const element *dout,
                                           const element *out, int rows, int T, int NH, int HS) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const auto [b, h, t] = place_of(row, T, NH);
  const size_t first = (static_cast<size_t>(b * T + t) * NH + h) * HS;
  float *dscores = probabilities + count;
  float sum = 0;
  for (int d = 0; d < HS; d++) sum += static_cast<float>(dout[first + d]) * static_cast<float>(out[first + d]);
  for (int s = 0; s <= t; s++) {
    const size_t i = static_cast<size_t>(row) * T + s;
    dscores[i] = probabilities[i] * (dscores[i] - sum) * rsqrtf(static_cast<float>(HS));
  }
}

// dq[t] = sum over s <= t of dscores[t,s] * k[s]; dk[t] and dv[t] = sums over the rows r >= t that attend to t, of
// dscores[r,t] * q[r] and probabilities[r,t] * dout[r].
__global__ void attention_backward_inputs(element *dqkv, const float *probabilities, long long count,
                                          const element *dout, const element *qkv, int T, int NH, int HS) {
  const int d = threadIdx.x, row = blockIdx.x;
  const auto [b, h, t] = place_of(row, T, NH);
  const float *dscores = probabilities + count;
  const size_t head = static_cast<size_t>(row - t);  // the head's first row
  float dq = 0, dk = 0, dv = 0;
  for (int s = 0; s <= t; s++) {
    dq += dscores[(head + t) * T + s] * static_cast<float>(qkv[offset(b, s, 1, h, T, NH, HS) + d]);
  }
  for (int r = t; r < T; r++) {
    dk += dscores[(head + r) * T + t] * static_cast<float>(qkv[offset(b, r, 0, h, T, NH, HS) + d]);
    dv += probabilities[(head + r) * T + t] * static_cast<float>(dout[(static_cast<size_t>(b * T + r) * NH + h) * HS + d]);
  }
  dqkv[offset(b, t, 0, h, T, NH, HS) + d] = static_cast<element>(dq);
  dqkv[offset(b, t, 1, h, T, NH, HS) + d] = static_cast<element>(dk);
  dqkv[offset(b, t, 2, h, T, NH, HS) + d] = static_cast<element>(dv);
}
