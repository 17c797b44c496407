// The sum over ranks for the global norm (collectives.cpp).
#pragma once

#include "../runtime/context.h"

namespace gpt2::ops {

// value [1] in device memory = the sum of all ranks' values; the context's stream waits for it.
int sum_over_ranks(gpt2_context &, double *value, gpt2_communicator &, const char *function);

}  // namespace gpt2::ops
