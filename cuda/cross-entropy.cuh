// gpt2_cross_entropy of logits that are first capped (gpt2_softcap_forward), and the gradient of the uncapped logits.
#pragma once

#include "runtime/cuda-context.h"

namespace gpt2 {

// Arguments as in gpt2_cross_entropy; softcap 0 caps nothing.
void capped_cross_entropy(const CudaContext &, float *losses, void *dlogits, const void *logits, const int32_t *targets,
                          int N, int V, int Vp, float dloss, float softcap);

}  // namespace gpt2
