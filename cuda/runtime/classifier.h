// gpt2_classifier by the ops it consists of; arguments as gpt2_classifier's.
#pragma once

#include "context.h"

namespace gpt2::ops {

int classifier_in_parts(gpt2_context &, float *losses, void *din, void *dweight, void *logits, const void *in,
                        const void *weight, const int32_t *targets, int N, int C, int V, int Vp, float dloss,
                        bool accumulate);
int64_t classifier_in_parts_scratch(const gpt2_context &, int N, int C, int Vp);

}  // namespace gpt2::ops
