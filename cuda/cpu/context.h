// What a gpt2_context is on the CPU, and how a function reports what it cannot do.
#pragma once

#include <string>

#include "../gpt2.h"
#include "kernels.h"

struct gpt2_context {
  int threads = 1;
  const gpt2::Kernels *kernels = nullptr;
  void *workspace = nullptr;
  int64_t workspace_bytes = 0;
  std::string error;
  std::string description;
};

namespace gpt2 {

// Keeps "function: text" as the context's last error and returns the status.
int fail(gpt2_context *context, int status, const char *function, const std::string &text);

}  // namespace gpt2
