// gpt2_classifier by the ops it consists of: where a library has nothing better, and what something better is held to.
#include "classifier.h"

#include "ops.generated.h"

namespace gpt2::ops {

int classifier_in_parts(gpt2_context &context, float *losses, void *din, void *dweight, void *logits, const void *in,
                        const void *weight, const int32_t *targets, int N, int C, int V, int Vp, float dloss,
                        bool accumulate) {
  void *dlogits = din || dweight ? logits : nullptr;
  int status = matmul_forward(context, logits, in, weight, nullptr, N, C, Vp);
  if (!status) status = cross_entropy(context, losses, dlogits, logits, targets, N, V, Vp, dloss);
  if (!status && din) status = matmul_backward_input(context, din, dlogits, weight, N, C, Vp);
  if (!status && dweight) {
    status = matmul_backward_weight(context, dweight, nullptr, dlogits, in, N, C, Vp, accumulate);
  }
  return status;
}

int64_t classifier_in_parts_scratch(const gpt2_context &context, int N, int C, int Vp) {
  return matmul_scratch(context, N, C, Vp, true);
}

}  // namespace gpt2::ops
