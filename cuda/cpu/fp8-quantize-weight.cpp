// A weight in FP8: one scale from the largest element, the values and their transpose, and the norms that bound a
// matmul's results.
#include "../gpt2.h"
#include "fp8.h"
#include "kernels.h"

namespace gpt2::GPT2_PATH {

namespace {

// The norm of FP8 values times `scale`; the sum of squares in double is exact.
float norm_of(const uint8_t *values, int count, float scale) {
  double squares = 0;
  for (int i = 0; i < count; i++) {
    const double value = from_e4m3(values[i]);
    squares += value * value;
  }
  return static_cast<float>(std::sqrt(squares) * scale);
}

}  // namespace

// Scratch: a float for each row or column. The largest of these floats becomes a factor.
void fp8_quantize_weight(Task task, uint8_t *values, uint8_t *transposed, float *factors, const float *weight,
                         const float *bias, int C, int O) {
  float *each = task.scratch;
  task.pool.each(O, [&](int64_t o) { each[o] = largest_size(weight + o * C, C); });
  const float scale = fp8_scale(largest_size(each, O));
  factors[GPT2_FP8_SCALE] = scale;
  factors[GPT2_FP8_ROW_NORM] = 0;
  factors[GPT2_FP8_COLUMN_NORM] = 0;
  factors[GPT2_FP8_BIAS] = bias ? largest_size(bias, O) : 0;
  if (values) {
    task.pool.each(O, [&](int64_t o) {
      quantize(values + o * C, weight + o * C, C, scale);
      each[o] = norm_of(values + o * C, C, scale);
    });
    factors[GPT2_FP8_ROW_NORM] = largest_size(each, O);
  }
  if (transposed) {
    const float inverse = inverse_of(scale);
    task.pool.each(C, [&](int64_t c) {
      uint8_t *line = transposed + c * O;
      for (int o = 0; o < O; o++) line[o] = to_e4m3(weight[static_cast<int64_t>(o) * C + c] * inverse);
      each[c] = norm_of(line, O, scale);
    });
    factors[GPT2_FP8_COLUMN_NORM] = largest_size(each, C);
  }
}

int64_t fp8_quantize_weight_scratch(int, int C, int O) { return std::max(C, O); }

}  // namespace gpt2::GPT2_PATH
