// Layernorm (CENTERED) and RMSNorm for rows of any length and alignment: these kernels read a row several times instead
// of holding it in registers. In RMSNorm the mean counts as 0, and `mean` and `bias` are not accessed.
#pragma once

#include "common/fp8.cuh"

namespace gpt2::norm_any {

constexpr int threads = 256;
constexpr int warps = threads / 32;

// The number of parameter vectors [C]: weight and, with CENTERED, bias.
template <bool CENTERED>
constexpr int parameters = CENTERED ? 2 : 1;

// Stores a row's FP8 scale and the upper bound of its norm; only lane 0 writes.
__device__ __forceinline__ void store_scale_and_norm(float *scale, float *norm, int64_t row, float row_scale,
                                                     float squares, int C) {
  if (threadIdx.x % 32 != 0) return;
  scale[row] = row_scale;
  norm[row] = fp8_norm(squares, C, row_scale);
}

// A warp stores a row in FP8. value(c) is element c; `largest` is the largest absolute value that the lane has seen.
template <class Value>
__device__ __forceinline__ void quantize_row(uint8_t *values, float *scale, float *norm, int64_t row, int C,
                                             float largest, const Value &value) {
  const float s = fp8_scale(warp_largest(largest)), inverse = inverse_of(s);
  float squares = 0;
  for (int c = static_cast<int>(threadIdx.x) % 32; c < C; c += 32) {
    const float x = value(c) * inverse;
    values[row * C + c] = static_cast<uint8_t>(pack_fp8(x, 0));
    squares = fmaf(x, x, squares);
  }
  store_scale_and_norm(scale, norm, row, s, warp_sum(squares), C);
}

// With FP8 a row's result is computed twice, for its scale and for its values, because `out` may be NULL.
template <bool CENTERED, bool FP8, class T>
__global__ void __launch_bounds__(threads)
    forward_any_kernel(T *out, float *mean, float *rstd, const T *in, const T *weight, const T *bias, int N, int C,
                       float eps, uint8_t *values, float *scale, float *norm) {
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
  if (row >= N) return;
  const T *x = in + row * C;
  float sum = 0, squares = 0;
  for (int c = lane; c < C; c += 32) sum += to_float(x[c]);
  const float m = CENTERED ? warp_sum(sum) / C : 0.0f;
  for (int c = lane; c < C; c += 32) squares += (to_float(x[c]) - m) * (to_float(x[c]) - m);
  const float r = rsqrtf(warp_sum(squares) / C + eps);
  const auto result = [&](int c) {
    float value = (to_float(x[c]) - m) * r * to_float(weight[c]);
    if constexpr (CENTERED) value += to_float(bias[c]);
    return from_float<T>(value);
  };
  [[maybe_unused]] float largest = 0;
  for (int c = lane; c < C; c += 32) {
    const T rounded = result(c);
    if (!FP8 || out) out[row * C + c] = rounded;
    if constexpr (FP8) largest = fmaxf(largest, fabsf(to_float(rounded)));
  }
  if constexpr (FP8) {
    quantize_row(values, scale, norm, row, C, largest, [&](int c) { return to_float(result(c)); });
  }
  if (lane == 0) {
    if constexpr (CENTERED) mean[row] = m;
    rstd[row] = r;
  }
}

template <bool CENTERED, class T>
__global__ void __launch_bounds__(threads)
    backward_any_kernel(T *din, const T *dout, const T *dresidual, const T *in, const T *weight, const float *mean,
                        const float *rstd, int N, int C) {
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
  if (row >= N) return;
  const int64_t base = row * C;
  const float m = CENTERED ? mean[row] : 0.0f, r = rstd[row];
  float sum = 0, product = 0;
  for (int c = lane; c < C; c += 32) {
    const float dnorm = to_float(dout[base + c]) * to_float(weight[c]);
    sum += dnorm;
    product += dnorm * (to_float(in[base + c]) - m) * r;
  }
  sum = CENTERED ? warp_sum(sum) / C : 0.0f;
  product = warp_sum(product) / C;
  for (int c = lane; c < C; c += 32) {
    const float dnorm = to_float(dout[base + c]) * to_float(weight[c]);
    const float norm = (to_float(in[base + c]) - m) * r;
    const float residual = dresidual ? to_float(dresidual[base + c]) : 0.0f;
    din[base + c] = from_float<T>(residual + r * (dnorm - sum - norm * product));
  }
}

// Partial sums of dweight and dbias: a block takes 32 columns and every gridDim.y-th group of 8 rows.
template <bool CENTERED, class T>
__global__ void __launch_bounds__(threads) parameters_any_kernel(float *partial, const T *dout, const T *in,
                                                                 const float *mean, const float *rstd, int N, int C) {
  __shared__ float sums[parameters<CENTERED>][warps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = blockIdx.x * 32 + lane;
  float dweight = 0, dbias = 0;
  if (column < C) {
    for (int64_t row = blockIdx.y * warps + warp; row < N; row += gridDim.y * warps) {
      const float d = to_float(dout[row * C + column]);
      dweight += d * (to_float(in[row * C + column]) - (CENTERED ? mean[row] : 0.0f)) * rstd[row];
      dbias += d;
    }
  }
  sums[0][warp][lane] = dweight;
  if constexpr (CENTERED) sums[1][warp][lane] = dbias;
  __syncthreads();
  if (warp >= parameters<CENTERED> || column >= C) return;
  float total = 0;
  for (int i = 0; i < warps; i++) total += sums[warp][i][lane];
  partial[(static_cast<int64_t>(blockIdx.y) * parameters<CENTERED> + warp) * C + column] = total;
}

// Stores the bf16 rows of `in` [N,C] in FP8, with a scale and a norm for each row.
__global__ void __launch_bounds__(threads) static quantize_any_kernel(uint8_t *values, float *scale, float *norm,
                                                                      const bf16 *in, int N, int C) {
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
  if (row >= N) return;
  float largest = 0;
  for (int c = lane; c < C; c += 32) largest = fmaxf(largest, fabsf(to_float(in[row * C + c])));
  quantize_row(values, scale, norm, row, C, largest, [&](int c) { return to_float(in[row * C + c]); });
}

}  // namespace gpt2::norm_any
