// The CPU library's gpt2_context.
#pragma once

#include <memory>

#include "../runtime/context.h"
#include "kernels.h"

namespace gpt2 {

struct CpuContext : gpt2_context {
  std::unique_ptr<ThreadPool> pool;
  const Kernels *kernels = nullptr;
  const Engine *engine = nullptr;
  unsigned large_allocations = 0;

  Task task() const { return {*pool, static_cast<float *>(workspace), engine}; }
};

using Context = CpuContext;
void open_context(Context &, int device, int dtype, int threads, bool accumulates);
inline Context &opened(gpt2_context &context) { return static_cast<Context &>(context); }

}  // namespace gpt2
