// What the CUDA library's other ops need of its collectives (collectives.cpp).
#pragma once

#include "runtime/context.h"

namespace gpt2::ops {

// value [1] in device memory = the sum of every rank's; the context's stream goes on behind it.
int sum_over_ranks(gpt2_context &, double *value, gpt2_communicator &, const char *function);

}  // namespace gpt2::ops
