// gpt2_cross_entropy of logits that are capped first (gpt2_softcap_forward), and its gradient by the logits before.
#pragma once

#include "runtime/cuda-context.h"

namespace gpt2 {

// As gpt2_cross_entropy; no cap if softcap is 0.
void capped_cross_entropy(const CudaContext &, float *losses, void *dlogits, const void *logits, const int32_t *targets,
                          int N, int V, int Vp, float dloss, float softcap);

}  // namespace gpt2
