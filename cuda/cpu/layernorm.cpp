// Layernorm. Rows are independent, except in the gradients of weight and bias, which sum over all rows: these are
// summed per column, in double and in the order of the rows, so that the number of threads does not change them.
#include <cmath>

#include "kernels.h"

namespace gpt2::GPT2_PATH {

void layernorm_forward(Task task, float *out, float *mean, float *rstd, const float *in, const float *weight,
                       const float *bias, int N, int C) {
  task.pool.each(N, [&](int64_t n) {
    const float *x = in + static_cast<size_t>(n) * C;
    float *o = out + static_cast<size_t>(n) * C;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int c = 0; c < C; c++) sum += x[c];
    const float m = sum / C;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int c = 0; c < C; c++) squares += (x[c] - m) * (x[c] - m);
    const float r = 1.0f / std::sqrt(squares / C + 1e-5f);
    for (int c = 0; c < C; c++) o[c] = (x[c] - m) * r * weight[c] + bias[c];
    mean[n] = m;
    rstd[n] = r;
  });
}

// With h = (x - mean) * rstd and g = dout * weight:  dx = rstd * (g - mean(g) - h * mean(g * h)).
static void row_backward(float *dx, const float *d, const float *residual, const float *x, const float *weight,
                         float mean, float rstd, int C) {
  float sum = 0;
  float product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (int c = 0; c < C; c++) {
    const float g = d[c] * weight[c];
    sum += g;
    product += g * (x[c] - mean) * rstd;
  }
  sum /= C;
  product /= C;
  for (int c = 0; c < C; c++) {
    const float h = (x[c] - mean) * rstd;
    const float through = (d[c] * weight[c] - sum - h * product) * rstd;
    dx[c] = residual ? through + residual[c] : through;
  }
}

void layernorm_backward(Task task, float *din, float *dweight, float *dbias, const float *dout, const float *dresidual,
                        const float *in, const float *weight, const float *mean, const float *rstd, int N, int C,
                        bool accumulate) {
  task.pool.each(N, [&](int64_t n) {
    const size_t at = static_cast<size_t>(n) * C;
    row_backward(din + at, dout + at, dresidual ? dresidual + at : nullptr, in + at, weight, mean[n], rstd[n], C);
  });

  constexpr int slab = 32;
  task.pool.each((C + slab - 1) / slab, [&](int64_t index) {
    const int first = static_cast<int>(index) * slab;
    const int width = first + slab < C ? slab : C - first;
    double weights[slab] = {};
    double biases[slab] = {};
    for (int n = 0; n < N; n++) {
      const float *d = dout + static_cast<size_t>(n) * C + first;
      const float *x = in + static_cast<size_t>(n) * C + first;
      for (int c = 0; c < width; c++) {
        weights[c] += d[c] * ((x[c] - mean[n]) * rstd[n]);
        biases[c] += d[c];
      }
    }
    for (int c = 0; c < width; c++) {
      dweight[first + c] = static_cast<float>((accumulate ? dweight[first + c] : 0) + weights[c]);
      dbias[first + c] = static_cast<float>((accumulate ? dbias[first + c] : 0) + biases[c]);
    }
  });
}

int64_t layernorm_scratch(int, int, int) { return 0; }

}  // namespace gpt2::GPT2_PATH
