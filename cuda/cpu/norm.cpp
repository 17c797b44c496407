// Layernorm and RMSNorm. Rows are independent, except in the gradients of weight and bias, which sum over all rows.
// These sums are per column, in double and in the order of the rows, so that the number of threads does not change
// them. A result in FP8 has a scale for each row, from the row's largest element, and a bound of the stored row's norm.
// For FP8, forward computes a row twice, 256 elements at a time, because there may be no fp32 output to hold the row.
#include <algorithm>
#include <cmath>

#include "fp8.h"
#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

struct Statistics {
  float mean;
  float rstd;
};

Statistics layernorm_statistics(const float *x, int C, float eps) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int c = 0; c < C; c++) sum += x[c];
  const float mean = sum / C;
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int c = 0; c < C; c++) squares += (x[c] - mean) * (x[c] - mean);
  return {mean, 1.0f / std::sqrt(squares / C + eps)};
}

Statistics rmsnorm_statistics(const float *x, int C, float eps) {
  return {0, 1.0f / std::sqrt(dot(x, x, C) / C + eps)};
}

// Normalizes `count` elements of a row. Only layernorm, which is `centered`, has a `bias`.
template <bool centered>
void normalize(float *out, const float *x, Statistics row, const float *weight, const float *bias, int count) {
  for (int c = 0; c < count; c++) {
    out[c] = centered ? (x[c] - row.mean) * row.rstd * weight[c] + bias[c] : x[c] * row.rstd * weight[c];
  }
}

// Normalizes a row [C] and stores it in FP8, and in `out` unless that is NULL.
template <bool centered>
void normalize_to_fp8(float *out, uint8_t *values, float *scale, float *norm, const float *x, Statistics row,
                      const float *weight, const float *bias, int C) {
  constexpr int size = 256;
  const auto each_piece = [&](const auto &use) {
    for (int first = 0; first < C; first += size) {
      float piece[size];
      const int count = std::min(size, C - first);
      normalize<centered>(piece, x + first, row, weight + first, centered ? bias + first : nullptr, count);
      use(first, piece, count);
    }
  };
  float largest = 0;
  each_piece([&](int, const float *piece, int count) { largest = std::max(largest, largest_size(piece, count)); });
  *scale = fp8_scale(largest);
  float square_sum = 0;
  each_piece([&](int first, const float *piece, int count) {
    quantize(values + first, piece, count, *scale);
    square_sum += scaled_square_sum(piece, count, *scale);
    if (out) std::copy_n(piece, count, out + first);
  });
  *norm = fp8_norm(square_sum, C, *scale);
}

template <bool centered, bool fp8>
void forward(Task task, float *out, uint8_t *values, float *scale, float *norm, float *mean, float *rstd,
             const float *in, const float *weight, const float *bias, int N, int C, float eps) {
  task.pool.each(N, [&](int64_t n) {
    const float *x = in + n * C;
    float *y = out ? out + n * C : nullptr;
    const Statistics row = centered ? layernorm_statistics(x, C, eps) : rmsnorm_statistics(x, C, eps);
    if constexpr (fp8) {
      normalize_to_fp8<centered>(y, values + n * C, scale + n, norm + n, x, row, weight, bias, C);
    } else {
      normalize<centered>(y, x, row, weight, bias, C);
    }
    if (centered) mean[n] = row.mean;
    rstd[n] = row.rstd;
  });
}

// With h = (x - mean) * rstd and g = dout * weight:  dx = rstd * (g - mean(g) - h * mean(g * h)). In RMSNorm `mean` is
// 0, and mean(g) is not subtracted.
template <bool centered>
void row_backward(float *dx, const float *d, const float *residual, const float *x, const float *weight, float mean,
                  float rstd, int C) {
  float sum = 0;
  float product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (int c = 0; c < C; c++) {
    const float g = d[c] * weight[c];
    sum += g;
    product += g * (x[c] - mean) * rstd;
  }
  sum = centered ? sum / C : 0;
  product /= C;
  for (int c = 0; c < C; c++) {
    const float h = (x[c] - mean) * rstd;
    const float through = (d[c] * weight[c] - sum - h * product) * rstd;
    dx[c] = residual ? through + residual[c] : through;
  }
}

// Only layernorm has `mean` and `dbias`. If din is dout, the sums over rows come first, because din replaces dout.
template <bool centered>
void backward(Task task, float *din, float *dweight, float *dbias, const float *dout, const float *dresidual,
              const float *in, const float *weight, const float *mean, const float *rstd, int N, int C,
              bool accumulate) {
  const auto mean_of = [&](int64_t n) { return centered ? mean[n] : 0; };
  constexpr int slab = 32, lines = 16;
  const auto sum_columns = [&](int64_t index) {
    const int first = static_cast<int>(index) * slab;
    const int width = first + slab < C ? slab : C - first;
    double weights[slab] = {};
    double biases[slab] = {};
    for (int n = 0; n < N; n++) {
      const float *d = dout + static_cast<size_t>(n) * C + first;
      const float *x = in + static_cast<size_t>(n) * C + first;
      for (int c = 0; c < width; c++) {
        weights[c] += d[c] * ((x[c] - mean_of(n)) * rstd[n]);
        biases[c] += d[c];
      }
    }
    for (int c = 0; c < width; c++) {
      dweight[first + c] = static_cast<float>((accumulate ? dweight[first + c] : 0) + weights[c]);
      if (centered) dbias[first + c] = static_cast<float>((accumulate ? dbias[first + c] : 0) + biases[c]);
    }
  };
  const auto rows_backward = [&](int64_t index) {
    for (int64_t n = index * lines; n < std::min<int64_t>(N, (index + 1) * lines); n++) {
      const size_t at = static_cast<size_t>(n) * C;
      row_backward<centered>(din + at, dout + at, dresidual ? dresidual + at : nullptr, in + at, weight, mean_of(n),
                             rstd[n], C);
    }
  };
  const int slabs = (C + slab - 1) / slab, blocks = (N + lines - 1) / lines;
  if (din == dout) {
    task.pool.each(slabs, sum_columns);
    task.pool.each(blocks, rows_backward);
  } else {
    task.pool.each_free(slabs + blocks, [&](int64_t index, int) {
      index < slabs ? sum_columns(index) : rows_backward(index - slabs);
    });
  }
}

}  // namespace

void norm_forward(Task task, float *out, uint8_t *values, float *scale, float *norm, float *mean, float *rstd,
                  const float *in, const float *weight, const float *bias, int N, int C, float eps) {
  const auto layernorm = values ? forward<true, true> : forward<true, false>;
  const auto rmsnorm = values ? forward<false, true> : forward<false, false>;
  const auto kernel = mean ? layernorm : rmsnorm;
  kernel(task, out, values, scale, norm, mean, rstd, in, weight, bias, N, C, eps);
}

void norm_backward(Task task, float *din, uint8_t *values, float *scale, float *norm, float *dweight, float *dbias,
                   const float *dout, const float *dresidual, const float *in, const float *weight, const float *mean,
                   const float *rstd, int N, int C, bool accumulate) {
  const auto kernel = mean ? backward<true> : backward<false>;
  kernel(task, din, dweight, dbias, dout, dresidual, in, weight, mean, rstd, N, C, accumulate);
  if (values) quantize_rows_and_norms(task, values, scale, norm, din, N, C);
}

int64_t norm_scratch(int, int, int) { return 0; }

}  // namespace gpt2::GPT2_PATH
