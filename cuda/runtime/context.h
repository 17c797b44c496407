// What a gpt2_context is in either library. Each derives its own from it (cpu/context.h, runtime/cuda-context.h).
#pragma once

#include <unistd.h>

#include <string>

#include "../gpt2.h"

struct gpt2_context {
  virtual ~gpt2_context() {
    if (listener >= 0) close(listener);
  }

  void *workspace = nullptr;
  int64_t workspace_bytes = 0;
  std::string error;
  std::string description;
  // Where rank 0 waits for the others (loopback.h).
  int listener = -1;
};

namespace gpt2 {

// Keeps "function: text" as the context's last error and returns the status.
int fail(gpt2_context *context, int status, const char *function, const std::string &text);

// For a catch block: keeps the exception, which must not pass through C, as the context's last error; returns the status.
int thrown(gpt2_context *context, const char *function) noexcept;

}  // namespace gpt2
