// The three products of a linear layer, one thread per element of the result. ELEMENT is float or __nv_bfloat16, GRADIENT the
// type of the weight's gradient. Sums are fp32.
#include <cuda_bf16.h>

using element = ELEMENT;
using gradient = GRADIENT;

// out[n,o] = sum over c of in[n,c] * weight[o,c], + bias[o]
__global__ void matmul_forward(element *out, const element *in, const element *weight, const element *bias, int N, int C,
                               int O) {
  const int o = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y * blockDim.y + threadIdx.y;
  if (n >= N || o >= O) return;
  float sum = bias ? static_cast<float>(bias[o]) : 0;
  for (int c = 0; c < C; c++) {
    sum += static_cast<float>(in[static_cast<size_t>(n) * C + c]) * static_cast<float>(weight[static_cast<size_t>(o) * C + c]);
  }
  out[static_cast<size_t>(n) * O + o] = static_cast<element>(sum);
}

// din[n,c] = sum over o of dout[n,o] * weight[o,c]
__global__ void matmul_backward_input(element *din, const element *dout, const element *weight, int N, int C, int O) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y * blockDim.y + threadIdx.y;
  if (n >= N || c >= C) return;
  float sum = 0;
  for (int o = 0; o < O; o++) {
    sum += static_cast<float>(dout[static_cast<size_t>(n) * O + o]) * static_cast<float>(weight[static_cast<size_t>(o) * C + c]);
  }
  din[static_cast<size_t>(n) * C + c] = static_cast<element>(sum);
}

// dweight[o,c] (=|+=) sum over n of dout[n,o] * in[n,c]
__global__ void matmul_backward_weight(gradient *dweight, const element *dout, const element *in, int N, int C, int O,
                                       int accumulate) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, o = blockIdx.y * blockDim.y + threadIdx.y;
  if (o >= O || c >= C) return;
  const size_t i = static_cast<size_t>(o) * C + c;
  float sum = 0;
  for (int n = 0; n < N; n++) {
    sum += static_cast<float>(dout[static_cast<size_t>(n) * O + o]) * static_cast<float>(in[static_cast<size_t>(n) * C + c]);
  }
  dweight[i] = static_cast<gradient>((accumulate ? static_cast<float>(dweight[i]) : 0) + sum);
}

// dbias[o] (=|+=) sum over n of dout[n,o]
__global__ void matmul_backward_bias(float *dbias, const element *dout, int N, int O, int accumulate) {
  const int o = blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= O) return;
  float sum = 0;
  for (int n = 0; n < N; n++) sum += static_cast<float>(dout[static_cast<size_t>(n) * O + o]);
  dbias[o] = (accumulate ? dbias[o] : 0) + sum;
}
