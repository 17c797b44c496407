// The last linear layer with its loss and backward, by the ops it consists of. `logits` is overwritten with its gradient.
#include "kernels.h"

namespace gpt2::GPT2_PATH {

void classifier(Task task, float *losses, float *din, float *dweight, float *dbias, float *logits, const float *in,
                const float *weight, const float *bias, const int32_t *targets, int N, int C, int V, int Vp,
                float dloss, float softcap, bool accumulate) {
  float *dlogits = din || dweight || dbias ? logits : nullptr;
  matmul_forward(task, logits, in, weight, bias, N, C, Vp);
  if (softcap > 0) softcap_forward(task, logits, logits, static_cast<int64_t>(N) * Vp, softcap);
  cross_entropy_capped(task, losses, dlogits, logits, targets, N, V, Vp, dloss, softcap);
  if (din) matmul_backward_input(task, din, dlogits, weight, N, C, Vp);
  if (dweight) matmul_backward_weight(task, dweight, nullptr, dlogits, in, N, C, Vp, accumulate);
  if (dbias) column_sums(task, dbias, dlogits, N, Vp, accumulate);
}

int64_t classifier_scratch(int threads, int N, int C, int Vp, bool) { return matmul_scratch(threads, N, C, Vp, true); }

}  // namespace gpt2::GPT2_PATH
