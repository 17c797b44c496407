// GELU with tanh. Since 0.5 (1 + tanh u) = 1 / (1 + e^-2u), GELU is x * sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715
// x^3), which keeps the relative precision where tanh is close to -1.
#include <cmath>

#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

constexpr float twice_root = 1.5957691216f;  // 2 sqrt(2/pi)
constexpr float cubic = 0.044715f;

float sigmoid_of(float x) { return 1.0f / (1.0f + exponential(-twice_root * (x + cubic * x * x * x))); }

// d/dx x s(2u) = s + x s (1 - s) 2u'
inline float derivative_of(float x) {
  const float s = sigmoid_of(x);
  return s + x * s * (1.0f - s) * twice_root * (1.0f + 3.0f * cubic * x * x);
}

}  // namespace

void gelu_forward(Task task, float *out, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) out[i] = in[i] * sigmoid_of(in[i]);
  });
}

void gelu_backward(Task task, float *din, const float *dout, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) din[i] = dout[i] * derivative_of(in[i]);
  });
}

void gelu_derivative(Task task, int8_t *out, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
      const float derivative = derivative_of(in[i]);
      out[i] = std::isnan(derivative) ? INT8_MAX : static_cast<int8_t>(std::lrint(derivative * 200 - 100));
    }
  });
}

}  // namespace gpt2::GPT2_PATH
