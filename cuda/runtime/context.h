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
  // Throws the error of the kernel launches since the last check, if there is one.
  virtual void check_launches() {}
  // Throws unless the context supports the ops on FP8 tensors.
  virtual void check_fp8() const {}

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

// The exception that makes a function of gpt2.h fail. `rank` is the rank that the text blames ("rank 2 is gone"), -1 if the
// text blames no other rank.
struct Failure {
  int status;
  std::string text;
  int rank = -1;
};

// Called in catch blocks, because no exception may pass through C: stores "function: text" of the current exception as the
// context's last error, and returns its status.
int thrown(gpt2_context *context, const char *function) noexcept;

}  // namespace gpt2
