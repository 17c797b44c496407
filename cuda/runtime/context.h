// The members of gpt2_context that both libraries share; each library derives a context (cpu/context.h,
// runtime/cuda-context.h).
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
  std::string description;  // without failed_rank
  std::string described;
  int failed_rank = -1;
  // The socket on which rank 0 accepts the other ranks (ranks/loopback.h).
  int listener = -1;
};

namespace gpt2 {

// Stores "function: text" as the context's last error and returns the status. `failed_rank` is the rank with which `text`
// begins ("rank 2 is gone"), -1 if it does not blame another rank.
int fail(gpt2_context *context, int status, const char *function, const std::string &text, int failed_rank = -1);

// For catch blocks, because no exception may pass through C: stores the exception as last error, returns its status.
int thrown(gpt2_context *context, const char *function) noexcept;

}  // namespace gpt2
