// AdamW with decoupled weight decay: one pass that reads weight, m, v, gradient and writes weight, m, v.
#include <cmath>

#include "kernels.h"

namespace gpt2::GPT2_PATH {

void adamw(Task task, float *weight, float *m, float *v, const float *gradient, int64_t count, float learning_rate,
           float beta1_correction, float beta2_correction, float clip, float beta1, float beta2, float eps,
           float weight_decay) {
#pragma omp parallel for simd num_threads(task.threads)
  for (int64_t i = 0; i < count; i++) {
    const float g = gradient[i] * clip;
    m[i] = beta1 * m[i] + (1.0f - beta1) * g;
    v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
    const float update = (m[i] / beta1_correction) / (std::sqrt(v[i] / beta2_correction) + eps);
    weight[i] -= learning_rate * (update + weight_decay * weight[i]);
  }
}

}  // namespace gpt2::GPT2_PATH
