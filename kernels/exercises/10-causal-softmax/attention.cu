// Causal attention without a T x T matrix, one warp per query.
//
// The query at position t attends to the keys at positions s <= t. Their values are averaged with the weights softmax(score). Scores
// come one after the other, so use the online softmax of exercise 7: when the largest score grows, what is already summed is scaled, the
// sum of the exponentials and the sum of values alike. At the end a lane's values are divided by the sum, and lse = largest + log(sum).
// Chapter: kernels/course/attention.
#include <cfloat>

constexpr int most = 8;  // elements of a head that a lane has: heads of up to 256

// Part 0 of a position is its query, 1 its key, 2 its value. qkv is [B,T,3,NH,HS], out is [B,T,NH,HS], lse is [B,NH,T].
__global__ void attention_forward(float *out, float *lse, const float *qkv, int T, int NH, int HS) {
  const int t = blockIdx.x % T, h = blockIdx.x / T % NH, b = blockIdx.x / T / NH, lane = threadIdx.x;
  const auto part = [&](int position, int which) {
    return qkv + ((static_cast<size_t>(b * T + position) * 3 + which) * NH + h) * HS;
  };
  const float *q = part(t, 0);
  float largest = -FLT_MAX, sum = 0;
  float values[most] = {};  // of the elements lane, lane + 32, ...
  for (int s = 0; s <= t; s++) {
    const float *k = part(s, 1), *v = part(s, 2);
    float score = 0;
    for (int d = lane; d < HS; d += 32) score += q[d] * k[d];
    for (int lanes = 16; lanes > 0; lanes /= 2) score += __shfl_xor_sync(0xffffffffu, score, lanes);
    score *= rsqrtf(static_cast<float>(HS));
    // Your code begins here: largest, sum and values take in the score and v.

    // It ends here.
  }
  float *y = out + (static_cast<size_t>(b * T + t) * NH + h) * HS;
  for (int i = 0; lane + 32 * i < HS; i++) y[lane + 32 * i] = values[i] / sum;
  if (lane == 0) lse[blockIdx.x] = largest + logf(sum);
}
