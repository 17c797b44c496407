// The last linear layer with its loss and backward, as a sequence of other ops. `logits` is overwritten with the
// logits' gradient.
#include "../gpt2.h"
#include "kernels.h"

namespace gpt2::GPT2_PATH {

void classifier(Task task, float *losses, float *din, float *dweight, float *dbias, float *logits, const float *in,
                const uint8_t *in_values, const float *in_scale, const float *weight, const uint8_t *weight_values,
                const float *factors, const float *bias, const int32_t *targets, int N, int C, int V, int Vp,
                float dloss, float softcap, bool accumulate) {
  if (in_values) {
    fp8_product(task, logits, in_values, in_scale, weight_values, factors, bias, nullptr, N, C, Vp);
  } else {
    matmul_forward(task, logits, nullptr, in, weight, bias, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  }
  float *dlogits = din || dweight || dbias ? logits : nullptr;
  if (softcap > 0) softcap_forward(task, logits, logits, static_cast<int64_t>(N) * Vp, softcap);
  cross_entropy_capped(task, losses, dlogits, logits, targets, N, V, Vp, dloss, softcap);
  if (din) matmul_backward_input(task, din, dlogits, weight, nullptr, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  if (dweight) matmul_backward_weight(task, dweight, nullptr, dlogits, in, N, C, Vp, accumulate);
  if (dbias) column_sums(task, dbias, dlogits, N, Vp, accumulate);
}

int64_t classifier_scratch(int threads, int N, int C, int Vp, bool, bool fp8) {
  return fp8 ? fp8_product_scratch(threads, N, C, Vp) : matmul_scratch(threads, N, C, Vp, true);
}

}  // namespace gpt2::GPT2_PATH
