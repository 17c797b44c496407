// What a gpt2_context is on the CPU.
#pragma once

#include <unistd.h>

#include "../runtime/context.h"
#include "kernels.h"

namespace gpt2 {

struct CpuContext : gpt2_context {
  ~CpuContext() override {
    if (listener >= 0) close(listener);
  }

  int threads = 1;
  const Kernels *kernels = nullptr;
  // Where rank 0 waits for the others (collectives.cpp).
  int listener = -1;
};

inline CpuContext &cpu(gpt2_context &context) { return static_cast<CpuContext &>(context); }

}  // namespace gpt2
