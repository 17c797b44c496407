// FP8 matmuls, computed by the fp32 matmuls: floats hold the operands exactly, because scales are powers of two.
// Scratch: a result that is stored in FP8 only, both operands as floats, then the scratch of the fp32 matmul.
#include "../gpt2.h"
#include "fp8.h"
#include "kernels.h"

namespace gpt2::GPT2_PATH {

namespace {

// The derivative of GELU that gelu_derivative() stored in a byte.
inline float gelu_derivative_of(int8_t byte) { return byte == INT8_MAX ? NAN : (byte + 100) / 200.0f; }

// The squared ReLU's derivative from its result, value * scale. In double, because the result may exceed fp32's range.
inline float relu_squared_derivative(float value, float scale) {
  return static_cast<float>(2 * std::sqrt(static_cast<double>(value) * scale));
}

// Expands a columnwise FP8 copy to floats in rows [N,C].
void expand_columnwise(Task task, float *rows, const uint8_t *values, const float *scale, int N, int C) {
  each_columnwise(task, N, C, [&](int64_t first, int c, const auto &row) {
    for (int i = 0; i < GPT2_FP8_GROUP; i++) {
      if (row(i) < N) rows[row(i) * C + c] = from_e4m3(values[first + i]) * scale[row(i) / GPT2_FP8_BLOCK];
    }
  });
}

// The FP8 outputs of a matmul, and the values that bound the outputs and so give their scales: norms of the matmul's
// input and, in backward through the squared ReLU, forward's scales. `columnwise` may be NULL.
struct Fp8Result {
  uint8_t *values;
  float *scale;
  const float *in_norm;
  uint8_t *columnwise;
  float *columnwise_scale;
  const float *in_columnwise_norm;
  const float *activated_scale = nullptr;
  const float *activated_columnwise_scale = nullptr;
};

// Stores `result` [N,C] in FP8. bound(norm, activated_scale) bounds the elements of a row, or of a block of rows.
template <class Bound>
void store(Task task, const Fp8Result &to, const float *result, int N, int C, const Bound &bound) {
  const auto scale_of = [&](const float *norm, const float *activated_scale, int64_t index) {
    return fp8_scale(bound(norm[index], activated_scale ? activated_scale[index] : 0));
  };
  quantize_rows(task, to.values, to.scale, result, N, C,
                [&](int64_t n) { return scale_of(to.in_norm, to.activated_scale, n); });
  if (!to.columnwise) return;
  for (int64_t block = 0; block * GPT2_FP8_BLOCK < N; block++) {
    to.columnwise_scale[block] = scale_of(to.in_columnwise_norm, to.activated_columnwise_scale, block);
  }
  store_columnwise(task, to.columnwise, N, C, [&](int64_t n, int c) {
    return to_e4m3(result[n * C + c] * inverse_of(to.columnwise_scale[n / GPT2_FP8_BLOCK]));
  });
}

}  // namespace

void fp8_product(Task task, float *out, const uint8_t *in, const float *in_scale, const uint8_t *weight,
                 const float *factors, const float *bias, const float *residual, int N, int C, int O) {
  const int64_t count = static_cast<int64_t>(O) * C;
  float *in_floats = task.scratch, *weight_floats = in_floats + static_cast<int64_t>(N) * C;
  task.pool.each(N, [&](int64_t n) {
    for (int64_t i = n * C; i < (n + 1) * C; i++) in_floats[i] = from_e4m3(in[i]) * in_scale[n];
  });
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) weight_floats[i] = from_e4m3(weight[i]) * factors[GPT2_FP8_SCALE];
  });
  matmul_forward(task.with(weight_floats + count), out, nullptr, in_floats, weight_floats, bias, residual, N, C, O,
                 GPT2_NO_ACTIVATION);
}

void fp8_matmul_forward(Task task, float *out, uint8_t *values, float *scale, uint8_t *columnwise,
                        float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale,
                        const float *in_norm, const float *in_columnwise_norm, const uint8_t *weight,
                        const float *factors, const float *bias, const float *residual, int N, int C, int O,
                        int activation) {
  if (activation == GPT2_NO_ACTIVATION) {
    return fp8_product(task, out, in, in_scale, weight, factors, bias, residual, N, C, O);
  }
  const bool is_gelu = activation == GPT2_GELU;
  const int64_t count = static_cast<int64_t>(N) * O;
  float *activated = task.scratch;
  fp8_product(task.with(activated + count), activated, in, in_scale, weight, factors, bias, nullptr, N, C, O);
  if (is_gelu) gelu_derivative(task, derivative, activated, count);
  (is_gelu ? gelu_forward : relu_squared_forward)(task, activated, activated, count);
  store(task, {values, scale, in_norm, columnwise, columnwise_scale, in_columnwise_norm}, activated, N, O,
        [&](float norm, float) {
          const float bound = std::fmaf(norm, factors[GPT2_FP8_ROW_NORM], factors[GPT2_FP8_BIAS]);
          return is_gelu ? bound : bound * bound;
        });
}

// The forward matmul with the transposed weight and C and O swapped, times the activation's derivative.
void fp8_matmul_backward_input(Task task, float *din, uint8_t *values, float *scale, uint8_t *columnwise,
                               float *columnwise_scale, const uint8_t *dout, const float *dout_scale,
                               const float *dout_norm, const float *dout_columnwise_norm, const uint8_t *transposed,
                               const float *factors, const int8_t *derivative, const uint8_t *activated,
                               const float *activated_scale, const float *activated_columnwise_scale, int N, int C,
                               int O, int activation) {
  if (activation == GPT2_NO_ACTIVATION) {
    return fp8_product(task, din, dout, dout_scale, transposed, factors, nullptr, nullptr, N, O, C);
  }
  const bool is_gelu = activation == GPT2_GELU;
  const int64_t count = static_cast<int64_t>(N) * C;
  float *result = task.scratch;
  fp8_product(task.with(result + count), result, dout, dout_scale, transposed, factors, nullptr, nullptr, N, O, C);
  task.pool.each(N, [&](int64_t n) {
    for (int64_t i = n * C; i < (n + 1) * C; i++) {
      result[i] *= is_gelu ? gelu_derivative_of(derivative[i])
                           : relu_squared_derivative(from_e4m3(activated[i]), activated_scale[n]);
    }
  });
  store(task,
        {values, scale, dout_norm, columnwise, columnwise_scale, dout_columnwise_norm, activated_scale,
         activated_columnwise_scale},
        result, N, C, [&](float norm, float forward_scale) {
          const float derivative =
              is_gelu ? largest_gelu_derivative : relu_squared_derivative(fp8_largest, forward_scale);
          return norm * (derivative * factors[GPT2_FP8_COLUMN_NORM]);
        });
}

void fp8_matmul_backward_weight(Task task, float *dweight, float *dbias, const uint8_t *dout, const float *dout_scale,
                                const uint8_t *in, const float *in_scale, int N, int C, int O, bool accumulate) {
  float *dout_rows = task.scratch, *in_rows = dout_rows + static_cast<int64_t>(N) * O;
  expand_columnwise(task, dout_rows, dout, dout_scale, N, O);
  expand_columnwise(task, in_rows, in, in_scale, N, C);
  matmul_backward_weight(task.with(in_rows + static_cast<int64_t>(N) * C), dweight, dbias, dout_rows, in_rows, N, C, O,
                         accumulate);
}

int64_t fp8_product_scratch(int threads, int N, int C, int O) {
  return (static_cast<int64_t>(N) + O) * C + matmul_scratch(threads, N, C, O, false);
}

// The gradient of the weight needs less scratch than the other directions.
int64_t fp8_matmul_scratch(int threads, int N, int C, int O, bool) {
  return static_cast<int64_t>(N) * O + fp8_product_scratch(threads, N, C, O);
}

}  // namespace gpt2::GPT2_PATH
