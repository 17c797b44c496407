// Layernorm, one thread per row forward and backward to the input, one thread per column backward to weight and bias.
// ELEMENT is float or __nv_bfloat16. Sums are fp32.
#include <cuda_bf16.h>

using element = ELEMENT;

// out = (in - mean) * rstd * weight + bias, over rows of C.
__global__ void layernorm_forward(element *out, float *mean, float *rstd, const element *in, const element *weight,
                                  const element *bias, int N, int C, float eps) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= N) return;
  const element *x = in + static_cast<size_t>(row) * C;
  element *y = out + static_cast<size_t>(row) * C;

  float sum = 0;
  for (int c = 0; c < C; c++) sum += static_cast<float>(x[c]);
  const float m = sum / C;
  float squares = 0;
  for (int c = 0; c < C; c++) {
    const float difference = static_cast<float>(x[c]) - m;
    squares += difference * difference;
  }
  const float r = rsqrtf(squares / C + eps);

  for (int c = 0; c < C; c++) {
    const float normalized = (static_cast<float>(x[c]) - m) * r;
    y[c] = static_cast<element>(normalized * static_cast<float>(weight[c]) + static_cast<float>(bias[c]));
  }
  mean[row] = m;
  rstd[row] = r;
}

// din = rstd * (g - mean(g) - normalized * mean(g * normalized)) + dresidual, with g = dout * weight.
__global__ void layernorm_backward_input(element *din, const element *dout, const element *dresidual, const element *in,
                                         const element *weight, const float *mean, const float *rstd, int N, int C) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= N) return;
  const size_t first = static_cast<size_t>(row) * C;
  const float m = mean[row], r = rstd[row];

  float sum = 0, sum_normalized = 0;
  for (int c = 0; c < C; c++) {
    const float g = static_cast<float>(dout[first + c]) * static_cast<float>(weight[c]);
    sum += g;
    sum_normalized += g * (static_cast<float>(in[first + c]) - m) * r;
  }
  for (int c = 0; c < C; c++) {
    const float g = static_cast<float>(dout[first + c]) * static_cast<float>(weight[c]);
    const float normalized = (static_cast<float>(in[first + c]) - m) * r;
    float d = r * (g - sum / C - normalized * sum_normalized / C);
    // din may be dresidual: this element is read before it is written, and no other thread touches it.
    if (dresidual) d += static_cast<float>(dresidual[first + c]);
    din[first + c] = static_cast<element>(d);
  }
}

// dweight (=|+=) the sum over rows of dout * normalized; dbias (=|+=) the sum of dout.
__global__ void layernorm_backward_parameters(float *dweight, float *dbias, const element *dout, const element *in,
                                              const float *mean, const float *rstd, int N, int C, int accumulate) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= C) return;
  float weight_sum = 0, bias_sum = 0;
  for (int row = 0; row < N; row++) {
    const size_t i = static_cast<size_t>(row) * C + c;
    const float d = static_cast<float>(dout[i]);
    weight_sum += d * (static_cast<float>(in[i]) - mean[row]) * rstd[row];
    bias_sum += d;
  }
  dweight[c] = (accumulate ? dweight[c] : 0) + weight_sum;
  dbias[c] = (accumulate ? dbias[c] : 0) + bias_sum;
}
