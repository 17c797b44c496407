// gpt2_cross_entropy of logits that are first capped (gpt2_softcap_forward), and the gradient of the uncapped logits.
#pragma once

#include "common/fp8.cuh"

namespace gpt2 {

// Arguments as in gpt2_cross_entropy; softcap 0 caps nothing.
void capped_cross_entropy(const CudaContext &, float *losses, void *dlogits, const void *logits, const int32_t *targets,
                          int N, int V, int Vp, float dloss, float softcap);

// A row's results in gpt2_classifier with gradients in FP8 (formulas: cpu/classifier.cpp). The row's gradient is
// `scale` times the exponentials, except at the target, where it is `of_target`. `saturated` is 1 if the exponentials'
// sum is over E5M2's largest number, else 0.
struct Fp8Row {
  float loss, scale, of_target, saturated;

  // `above` = log(E / fp8_of_estimate) - r; E estimates softmax's denominator, r is the target's logit. The loss is
  // log1p(sum * exp(above)), computed from logarithms, because sum * exp(above) may exceed fp32.
  __device__ __forceinline__ static Fp8Row of(float sum, float above, float derivative, float dloss) {
    const float log_of_ratio = logf(sum) + above, scale = dloss / (sum + expf(-above));
    const float loss = log_of_ratio > 0 ? log_of_ratio + log1pf(expf(-log_of_ratio)) : log1pf(expf(log_of_ratio));
    return {loss, scale / e5m2_loss, -scale * sum * derivative, sum > e5m2_largest ? 1.0f : 0.0f};
  }
};

// In the step block (gpt2.h): step[element] (=|+=) scale times the sum of values [N].
void add_to_step(const CudaContext &, float *step, int element, const float *values, int N, float scale,
                 bool accumulate);

}  // namespace gpt2
