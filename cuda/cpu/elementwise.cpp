// Ops on flat arrays: GELU and its derivative in one byte, the softcap, the residual sum. matmul.cpp has the GELU and
// the residual sum that are fused into a matmul.
#include <cmath>

#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

void gelu_forward(Task task, float *out, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) { gelu_line(out + first, in + first, last - first); });
}

void gelu_backward(Task task, float *din, const float *dout, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
    gelu_backward_line(din + first, dout + first, in + first, last - first);
  });
}

void gelu_derivative(Task task, int8_t *out, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
      const float derivative = gelu_slope(in[i]);
      out[i] = std::isnan(derivative) ? INT8_MAX : static_cast<int8_t>(std::lrint(derivative * 200 - 100));
    }
  });
}

void softcap_forward(Task task, float *out, const float *in, int64_t count, float cap) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) out[i] = cap * in[i] / std::sqrt(in[i] * in[i] + cap * cap);
  });
}

void residual_forward(Task task, float *out, const float *a, const float *b, int64_t count) {
  task.pool.ranges(count,
                   [&](int64_t first, int64_t last) { add_line(out + first, a + first, b + first, last - first); });
}

}  // namespace gpt2::GPT2_PATH
