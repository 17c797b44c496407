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
  // Throws what went wrong in the launches of an op.
  virtual void check_launches() {}
  // Throws unless the context has the ops on FP8 tensors.
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

// Why a function of gpt2.h fails. `rank` is the rank with which the text begins ("rank 2 is gone"), -1 if the text does not
// blame another rank.
struct Failure {
  int status;
  std::string text;
  int rank = -1;
};

// For catch blocks, because no exception may pass through C: stores "function: text" as the context's last error, returns the
// status.
int thrown(gpt2_context *context, const char *function) noexcept;

}  // namespace gpt2
