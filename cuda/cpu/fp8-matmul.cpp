// Products of FP8 by those of fp32: floats hold the operands exactly, because scales are powers of two. Scratch: a
// result that is stored in FP8 only, both operands as floats, then the matmul's own.
#include "../gpt2.h"
#include "fp8.h"
#include "kernels.h"

namespace gpt2::GPT2_PATH {

namespace {

constexpr float largest_gelu_derivative = 1.13f;

struct Operands {
  Task rest;
  float *in;
  float *weight;
};

// in [N,C] with a scale for each row, weight [O,C] with one.
Operands expand(Task task, const uint8_t *in, const float *in_scale, const uint8_t *weight, const float *factors, int N,
                int C, int O) {
  float *in_floats = task.scratch, *weight_floats = in_floats + static_cast<int64_t>(N) * C;
  task.pool.each(N, [&](int64_t n) {
    for (int64_t i = n * C; i < (n + 1) * C; i++) in_floats[i] = from_e4m3(in[i]) * in_scale[n];
  });
  task.pool.ranges(static_cast<int64_t>(O) * C, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) weight_floats[i] = from_e4m3(weight[i]) * factors[GPT2_FP8_SCALE];
  });
  return {{task.pool, weight_floats + static_cast<int64_t>(O) * C}, in_floats, weight_floats};
}

// Expands a columnwise copy to rows [N,C].
void expand_columnwise(Task task, float *rows, const uint8_t *values, const float *scale, int N, int C) {
  each_columnwise(task, N, C, [&](int64_t first, int c, const auto &row) {
    for (int i = 0; i < GPT2_FP8_GROUP; i++) {
      if (row(i) < N) rows[row(i) * C + c] = from_e4m3(values[first + i]) * scale[row(i) / GPT2_FP8_BLOCK];
    }
  });
}

// Where a product stores its result in FP8, and the scales of its input. `columnwise` may be NULL.
struct Fp8Result {
  uint8_t *values;
  float *scale;
  const float *in_scale;
  uint8_t *columnwise;
  float *columnwise_scale;
  const float *in_columnwise_scale;
};

// Stores `result` [N,C]; bound(in_scale) is the bound of its elements / 448.
template <class Bound>
void store(Task task, const Fp8Result &to, const float *result, int N, int C, const Bound &bound) {
  quantize_rows(task, to.values, to.scale, result, N, C,
                [&](int64_t n) { return fp8_scale_of_bound(bound(to.in_scale[n])); });
  if (!to.columnwise) return;
  for (int64_t block = 0; block * GPT2_FP8_BLOCK < N; block++) {
    to.columnwise_scale[block] = fp8_scale_of_bound(bound(to.in_columnwise_scale[block]));
  }
  store_columnwise(task, to.columnwise, N, C, [&](int64_t n, int c) {
    return to_e4m3(result[n * C + c] * inverse_of(to.columnwise_scale[n / GPT2_FP8_BLOCK]));
  });
}

}  // namespace

void fp8_matmul(Task task, float *out, const uint8_t *in, const float *in_scale, const uint8_t *weight,
                const float *factors, const float *bias, const float *residual, int N, int C, int O) {
  const Operands floats = expand(task, in, in_scale, weight, factors, N, C, O);
  matmul_forward(floats.rest, out, floats.in, floats.weight, bias, N, C, O);
  if (residual) residual_forward(task, out, residual, out, static_cast<int64_t>(N) * O);
}

void fp8_matmul_gelu_forward(Task task, uint8_t *values, float *scale, uint8_t *columnwise, float *columnwise_scale,
                             float *pre, const uint8_t *in, const float *in_scale, const float *in_columnwise_scale,
                             const uint8_t *weight, const float *factors, const float *bias, int N, int C, int O) {
  float *out = task.scratch;
  const int64_t count = static_cast<int64_t>(N) * O;
  fp8_matmul({task.pool, out + count}, pre, in, in_scale, weight, factors, bias, nullptr, N, C, O);
  gelu_forward(task, out, pre, count);
  store(task, {values, scale, in_scale, columnwise, columnwise_scale, in_columnwise_scale}, out, N, O,
        [&](float own) { return own * factors[GPT2_FP8_ROW_SUM] + factors[GPT2_FP8_BIAS] / 448; });
}

void fp8_matmul_relu_squared_forward(Task task, float *out, const uint8_t *in, const float *in_scale,
                                     const uint8_t *weight, const float *factors, const float *bias, int N, int C,
                                     int O) {
  const Operands floats = expand(task, in, in_scale, weight, factors, N, C, O);
  matmul_relu_squared_forward(floats.rest, out, floats.in, floats.weight, bias, N, C, O);
}

// With the transposed weight, backward to the input is the forward product with C and O swapped.
void fp8_matmul_gelu_backward_input(Task task, uint8_t *values, float *scale, uint8_t *columnwise,
                                    float *columnwise_scale, const uint8_t *dout, const float *dout_scale,
                                    const float *dout_columnwise_scale, const uint8_t *transposed, const float *factors,
                                    const float *pre, int N, int C, int O) {
  float *din = task.scratch;
  const int64_t count = static_cast<int64_t>(N) * C;
  fp8_matmul({task.pool, din + count}, din, dout, dout_scale, transposed, factors, nullptr, nullptr, N, O, C);
  gelu_backward(task, din, din, pre, count);
  store(task, {values, scale, dout_scale, columnwise, columnwise_scale, dout_columnwise_scale}, din, N, C,
        [&](float own) { return largest_gelu_derivative * own * factors[GPT2_FP8_COLUMN_SUM]; });
}

void fp8_matmul_relu_squared_backward_input(Task task, float *din, const uint8_t *dout, const float *dout_scale,
                                            const uint8_t *transposed, const float *factors, const float *activated,
                                            int N, int C, int O) {
  fp8_matmul(task, din, dout, dout_scale, transposed, factors, nullptr, nullptr, N, O, C);
  relu_squared_backward(task, din, activated, static_cast<int64_t>(N) * C);
}

void fp8_matmul_backward_weight(Task task, float *dweight, float *dbias, const uint8_t *dout, const float *dout_scale,
                                const uint8_t *in, const float *in_scale, int N, int C, int O, bool accumulate) {
  float *dout_rows = task.scratch, *in_rows = dout_rows + static_cast<int64_t>(N) * O;
  expand_columnwise(task, dout_rows, dout, dout_scale, N, O);
  expand_columnwise(task, in_rows, in, in_scale, N, C);
  matmul_backward_weight({task.pool, in_rows + static_cast<int64_t>(N) * C}, dweight, dbias, dout_rows, in_rows, N, C,
                         O, accumulate);
}

int64_t fp8_product_scratch(int threads, int N, int C, int O) {
  return (static_cast<int64_t>(N) + O) * C + matmul_scratch(threads, N, C, O, false);
}

int64_t fp8_matmul_scratch(int threads, int N, int C, int O) {
  return static_cast<int64_t>(N) * O + fp8_product_scratch(threads, N, C, O);
}

int64_t fp8_matmul_backward_weight_scratch(int threads, int N, int C, int O) {
  return (static_cast<int64_t>(O) + C) * N + matmul_scratch(threads, N, C, O, true);
}

}  // namespace gpt2::GPT2_PATH
