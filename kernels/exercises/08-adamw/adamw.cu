// AdamW: one thread updates one weight (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101).
//
//   m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
//   master = master - lr (m / c1 / (sqrt(v / c2) + eps) + weight_decay master)
//
// c1 = 1 - beta1^n and c2 = 1 - beta2^n correct the averages in step n, which begin at 0; the step block has both. g is the gradient
// times the factor that clips it; lr is the rate of the step times that of these weights. `weight` is a copy of `master` in the dtype of the device. A step that changes nothing has
// step[GPT2_STEP_UPDATED] == 0.
// Chapter: kernels/course/optimizer.
#include "gpt2.h"

__global__ void adamw(float *weight, float *master, float *m, float *v, const float *gradient, const float *step,
                      long long count, int first_scalar, float rate, float beta1, float beta2, float eps,
                      float weight_decay) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= count || step[GPT2_STEP_UPDATED] == 0) return;
  const float lr = rate * step[GPT2_STEP_LEARNING_RATE], c1 = step[first_scalar], c2 = step[first_scalar + 1];
  const float g = gradient[i] * step[GPT2_STEP_CLIP];
  // Your code begins here.

  // It ends here.
}
