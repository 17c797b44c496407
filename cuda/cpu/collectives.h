// What the CPU library's other ops need of its collectives (collectives.cpp).
#pragma once

#include "../runtime/context.h"

namespace gpt2::ops {

// value = the sum of every rank's, added in the order of ranks.
int sum_over_ranks(gpt2_context &, double &value, gpt2_communicator &);

}  // namespace gpt2::ops
