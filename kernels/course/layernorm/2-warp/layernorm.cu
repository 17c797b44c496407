// Layernorm, one warp per row forward and backward to the input. Backward to weight and bias cuts the rows into slices, whose sums a
// second kernel adds. ELEMENT is float or __nv_bfloat16. Sums are fp32.
#include <cuda_bf16.h>

using element = ELEMENT;

constexpr int warps = 8;  // of a block

// The sum of the 32 lanes' values, which every lane gets.
__device__ float warp_sum(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}

// out = (in - mean) * rstd * weight + bias, over rows of C.
__global__ void layernorm_forward(element *out, float *mean, float *rstd, const element *in, const element *weight,
                                  const element *bias, int N, int C, float eps) {
  const int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= N) return;
  const element *x = in + static_cast<size_t>(row) * C;
  element *y = out + static_cast<size_t>(row) * C;

  float sum = 0;
  for (int c = lane; c < C; c += 32) sum += static_cast<float>(x[c]);
  const float m = warp_sum(sum) / C;
  float squares = 0;
  for (int c = lane; c < C; c += 32) {
    const float difference = static_cast<float>(x[c]) - m;
    squares += difference * difference;
  }
  const float r = rsqrtf(warp_sum(squares) / C + eps);

  for (int c = lane; c < C; c += 32) {
    const float normalized = (static_cast<float>(x[c]) - m) * r;
    y[c] = static_cast<element>(normalized * static_cast<float>(weight[c]) + static_cast<float>(bias[c]));
  }
  if (lane == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

// din = rstd * (g - mean(g) - normalized * mean(g * normalized)) + dresidual, with g = dout * weight.
__global__ void layernorm_backward_input(element *din, const element *dout, const element *dresidual, const element *in,
                                         const element *weight, const float *mean, const float *rstd, int N, int C) {
  const int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= N) return;
  const size_t first = static_cast<size_t>(row) * C;
  const float m = mean[row], r = rstd[row];

  float sum = 0, sum_normalized = 0;
  for (int c = lane; c < C; c += 32) {
    const float g = static_cast<float>(dout[first + c]) * static_cast<float>(weight[c]);
    sum += g;
    sum_normalized += g * (static_cast<float>(in[first + c]) - m) * r;
  }
  sum = warp_sum(sum) / C;
  sum_normalized = warp_sum(sum_normalized) / C;
  for (int c = lane; c < C; c += 32) {
    const float g = static_cast<float>(dout[first + c]) * static_cast<float>(weight[c]);
    const float normalized = (static_cast<float>(in[first + c]) - m) * r;
    float d = r * (g - sum - normalized * sum_normalized);
    // din may be dresidual: this element is read before it is written, and no other thread touches it.
    if (dresidual) d += static_cast<float>(dresidual[first + c]);
    din[first + c] = static_cast<element>(d);
  }
}

// partial[slice] = the slice's sums of dout * normalized, then of dout, for each column. A block has 32 columns of a slice: its warps
// take the slice's rows in turn, and the first warp adds what they have.
__global__ void layernorm_sum_slices(float *partial, const element *dout, const element *in, const float *mean,
                                     const float *rstd, int N, int C, int slice_rows) {
  const int lane = threadIdx.x, warp = threadIdx.y, slice = blockIdx.y;
  const int c = blockIdx.x * 32 + lane;
  const int end = min(N, (slice + 1) * slice_rows);
  float weight_sum = 0, bias_sum = 0;
  for (int row = slice * slice_rows + warp; row < end && c < C; row += warps) {
    const size_t i = static_cast<size_t>(row) * C + c;
    const float d = static_cast<float>(dout[i]);
    weight_sum += d * (static_cast<float>(in[i]) - mean[row]) * rstd[row];
    bias_sum += d;
  }
  __shared__ float weight_sums[warps][32], bias_sums[warps][32];
  weight_sums[warp][lane] = weight_sum;
  bias_sums[warp][lane] = bias_sum;
  __syncthreads();
  if (warp > 0 || c >= C) return;
  for (int other = 1; other < warps; other++) {
    weight_sum += weight_sums[other][lane];
    bias_sum += bias_sums[other][lane];
  }
  partial[static_cast<size_t>(2 * slice) * C + c] = weight_sum;
  partial[static_cast<size_t>(2 * slice + 1) * C + c] = bias_sum;
}

// dweight and dbias (=|+=) the sums of all slices, in their order: one thread per column.
__global__ void layernorm_add_slices(float *dweight, float *dbias, const float *partial, int C, int slices,
                                     int accumulate) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= C) return;
  float weight_sum = 0, bias_sum = 0;
#pragma unroll 8
  for (int slice = 0; slice < slices; slice++) {
    weight_sum += partial[static_cast<size_t>(2 * slice) * C + c];
    bias_sum += partial[static_cast<size_t>(2 * slice + 1) * C + c];
  }
  dweight[c] = (accumulate ? dweight[c] : 0) + weight_sum;
  dbias[c] = (accumulate ? dbias[c] : 0) + bias_sum;
}
