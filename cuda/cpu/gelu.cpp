// GELU with tanh. Since 0.5 (1 + tanh u) = 1 / (1 + e^-2u), GELU is x * sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715
// x^3), which keeps the relative precision where tanh is close to -1.
#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

constexpr float twice_root = 1.5957691216f;  // 2 sqrt(2/pi)
constexpr float cubic = 0.044715f;

float sigmoid_of(float x) { return 1.0f / (1.0f + exponential(-twice_root * (x + cubic * x * x * x))); }

}  // namespace

void gelu_forward(Task task, float *out, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) out[i] = in[i] * sigmoid_of(in[i]);
  });
}

// d/dx x s(2u) = s + x s (1 - s) 2u'
void gelu_backward(Task task, float *din, const float *dout, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
      const float x = in[i];
      const float s = sigmoid_of(x);
      din[i] = dout[i] * (s + x * s * (1.0f - s) * twice_root * (1.0f + 3.0f * cubic * x * x));
    }
  });
}

}  // namespace gpt2::GPT2_PATH
