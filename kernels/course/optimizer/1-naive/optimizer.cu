// The loss of a step, the norm of its gradient, and AdamW. The step block holds what changes from step to step; the indices are those
// of GPT2_STEP in cuda/gpt2.h.
#include "gpt2.h"

// step[LOSS] (=|+=) scale * the sum of losses, by one thread.
__global__ void loss_sum(float *step, const float *losses, int N, float scale, int accumulate) {
  double sum = 0;
  for (int n = 0; n < N; n++) sum += losses[n];
  step[GPT2_STEP_LOSS] = (accumulate ? step[GPT2_STEP_LOSS] : 0) + static_cast<float>(sum * scale);
}

// partial[i] = the sum of squares of the i-th 4096 elements of matrices and vectors, which follow each other.
__global__ void square_sums(double *partial, const float *matrices, const float *vectors, long long matrix_count,
                            long long vector_count) {
  const long long count = matrix_count + vector_count;
  const long long first = (blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x) * 4096;
  if (first >= count) return;
  double sum = 0;
  for (long long i = first; i < first + 4096 && i < count; i++) {
    const double value = i < matrix_count ? matrices[i] : vectors[i - matrix_count];
    sum += value * value;
  }
  partial[first / 4096] = sum;
}

// The norm, the factor that clips it, and whether the step changes the weights, by one thread.
__global__ void finish_norm(float *step, const double *partial, int count, float targets, float max_norm) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += partial[i];
  // Loss and gradient are means over all targets; only those that are not -1 count.
  const float factor = targets / step[GPT2_STEP_TARGETS], norm = factor * static_cast<float>(sqrt(sum));
  step[GPT2_STEP_LOSS] *= factor;
  step[GPT2_STEP_NORM] = norm;
  step[GPT2_STEP_CLIP] = factor * (norm > max_norm && max_norm > 0 ? max_norm / norm : 1);
  const bool follows = step[GPT2_STEP_AFTER_UPDATE] == 0 || step[GPT2_STEP_UPDATED] != 0;
  const bool updates = step[GPT2_STEP_LOSS] <= step[GPT2_STEP_LOSS_LIMIT] && norm <= step[GPT2_STEP_NORM_LIMIT] && follows;
  step[GPT2_STEP_UPDATED] = updates ? 1 : 0;
}

// Loshchilov and Hutter 2019, one thread per weight. In fp32 the weights are their own masters.
__global__ void adamw(float *weight, float *master, float *m, float *v, const float *gradient, const float *step,
                      long long count, int first_scalar, float rate, float beta1, float beta2, float eps,
                      float weight_decay) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= count || step[GPT2_STEP_UPDATED] == 0) return;
  const float lr = rate * step[GPT2_STEP_LEARNING_RATE], c1 = step[first_scalar], c2 = step[first_scalar + 1];
  const float g = gradient[i] * step[GPT2_STEP_CLIP];
  m[i] = beta1 * m[i] + (1 - beta1) * g;
  v[i] = beta2 * v[i] + (1 - beta2) * g * g;
  const float updated = master[i] - lr * (m[i] / c1 / (sqrtf(v[i] / c2) + eps) + weight_decay * master[i]);
  master[i] = updated;
  weight[i] = updated;
}
