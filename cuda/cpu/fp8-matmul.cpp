// Products of FP8 by those of fp32: floats hold the operands exactly, because scales are powers of two. Scratch: both
// operands as floats, then the matmul's own scratch.
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

}  // namespace

void fp8_matmul(Task task, float *out, const uint8_t *in, const float *in_scale, const uint8_t *weight,
                const float *factors, const float *bias, const float *residual, int N, int C, int O) {
  const Operands floats = expand(task, in, in_scale, weight, factors, N, C, O);
  matmul_forward(floats.rest, out, floats.in, floats.weight, bias, N, C, O);
  if (residual) residual_forward(task, out, residual, out, static_cast<int64_t>(N) * O);
}

void fp8_matmul_gelu_forward(Task task, float *out, uint8_t *values, float *scale, float *pre, const uint8_t *in,
                             const float *in_scale, const uint8_t *weight, const float *factors, const float *bias,
                             int N, int C, int O) {
  const Operands floats = expand(task, in, in_scale, weight, factors, N, C, O);
  matmul_gelu_forward(floats.rest, out, pre, floats.in, floats.weight, bias, N, C, O);
  quantize_rows(task, values, scale, out, N, O, [&](int64_t n) {
    return fp8_scale_of_bound(in_scale[n] * factors[GPT2_FP8_ROW_SUM] + factors[GPT2_FP8_BIAS] / 448);
  });
}

void fp8_matmul_relu_squared_forward(Task task, float *out, const uint8_t *in, const float *in_scale,
                                     const uint8_t *weight, const float *factors, const float *bias, int N, int C,
                                     int O) {
  const Operands floats = expand(task, in, in_scale, weight, factors, N, C, O);
  matmul_relu_squared_forward(floats.rest, out, floats.in, floats.weight, bias, N, C, O);
}

// With the transposed weight, backward to the input is the forward product with C and O swapped.
void fp8_matmul_gelu_backward_input(Task task, float *din, uint8_t *values, float *scale, const uint8_t *dout,
                                    const float *dout_scale, const uint8_t *transposed, const float *factors,
                                    const float *pre, int N, int C, int O) {
  fp8_matmul(task, din, dout, dout_scale, transposed, factors, nullptr, nullptr, N, O, C);
  gelu_backward(task, din, din, pre, static_cast<int64_t>(N) * C);
  quantize_rows(task, values, scale, din, N, C, [&](int64_t n) {
    return fp8_scale_of_bound(largest_gelu_derivative * dout_scale[n] * factors[GPT2_FP8_COLUMN_SUM]);
  });
}

void fp8_matmul_relu_squared_backward_input(Task task, float *din, const uint8_t *dout, const float *dout_scale,
                                            const uint8_t *transposed, const float *factors, const float *activated,
                                            int N, int C, int O) {
  fp8_matmul(task, din, dout, dout_scale, transposed, factors, nullptr, nullptr, N, O, C);
  relu_squared_backward(task, din, activated, static_cast<int64_t>(N) * C);
}

int64_t fp8_matmul_scratch(int threads, int N, int C, int O) {
  return (static_cast<int64_t>(N) + O) * C + matmul_scratch(threads, N, C, O, false);
}

}  // namespace gpt2::GPT2_PATH
