// Every load of a warp reads neighbouring addresses. in and weight of forward both have k innermost, so the lanes of a warp take
// neighbouring k's of one result, and add their sums by shuffles. In the gradients neighbouring results share a or b, and the lanes
// take neighbouring results.
#include "../operands.cuh"

// out[n,o] = sum over c of in[n,c] * weight[o,c], + bias[o]. A warp has one result; a block of 32 x 8 has one n and 8 o's.
__global__ void matmul_forward(element *out, const element *in, const element *weight, const element *bias, int N, int C,
                               int O) {
  const int n = blockIdx.x, o = blockIdx.y * 8 + threadIdx.y, lane = threadIdx.x;
  if (o >= O) return;
  const element *x = in + static_cast<size_t>(n) * C, *w = weight + static_cast<size_t>(o) * C;
  float sum = 0;
  for (int c = lane; c < C; c += 32) sum += static_cast<float>(x[c]) * static_cast<float>(w[c]);
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (lane == 0) out[static_cast<size_t>(n) * O + o] = static_cast<element>(sum + (bias ? static_cast<float>(bias[o]) : 0));
}

// din[n,c] = sum over o of dout[n,o] * weight[o,c]. A warp has 32 c's of one n: dout is the same for all lanes, a broadcast.
__global__ void matmul_backward_input(element *din, const element *dout, const element *weight, int N, int C, int O) {
  const int c = blockIdx.x * 32 + threadIdx.x, n = blockIdx.y * 8 + threadIdx.y;
  if (n >= N || c >= C) return;
  float sum = 0;
  for (int o = 0; o < O; o++) {
    sum += static_cast<float>(dout[static_cast<size_t>(n) * O + o]) * static_cast<float>(weight[static_cast<size_t>(o) * C + c]);
  }
  din[static_cast<size_t>(n) * C + c] = static_cast<element>(sum);
}

// dweight[o,c] (=|+=) sum over n of dout[n,o] * in[n,c]. A warp has 32 c's of one o.
__global__ void matmul_backward_weight(gradient *dweight, const element *dout, const element *in, int N, int C, int O,
                                       int accumulate) {
  const int c = blockIdx.x * 32 + threadIdx.x, o = blockIdx.y * 8 + threadIdx.y;
  if (o >= O || c >= C) return;
  const size_t i = static_cast<size_t>(o) * C + c;
  float sum = 0;
  for (int n = 0; n < N; n++) {
    sum += static_cast<float>(dout[static_cast<size_t>(n) * O + o]) * static_cast<float>(in[static_cast<size_t>(n) * C + c]);
  }
  dweight[i] = static_cast<gradient>((accumulate ? static_cast<float>(dweight[i]) : 0) + sum);
}
