// Argument checks of the exported functions. A Check keeps the first failed check; `status()` reports it.
#pragma once

#include <initializer_list>
#include <utility>

#include "context.h"

namespace gpt2 {

class Check {
 public:
  Check(gpt2_context *context, const char *function) : context_(context), function_(function) {}

  // Sizes that must be at least 1.
  Check &sizes(std::initializer_list<std::pair<const char *, int64_t>> sizes);
  // Tensors that must not be NULL.
  Check &tensors(std::initializer_list<std::pair<const char *, const void *>> tensors);
  // Everything else that must not be NULL: events, graphs, communicators, host values.
  Check &handles(std::initializer_list<std::pair<const char *, const void *>> handles);
  // A valid rank out of at least two, and a valid timeout.
  Check &rank(int rank, int ranks, int timeout_milliseconds);
  // A condition that must hold; `expected` says in the error what must hold.
  Check &that(bool holds, const std::string &expected);
  // Host values that must be in [0, limit); `values` may be NULL.
  Check &ids(const char *name, const int32_t *values, int64_t count, int32_t least, int32_t limit);
  // Host values [lines,length], each from the one before it in its line (the first from 0) to its index in the line;
  // `values` may be NULL.
  Check &causal(const char *name, const int32_t *values, int lines, int length);
  // The workspace must hold `bytes`.
  Check &scratch(int64_t bytes);

  bool failed() const { return failed_; }
  // GPT2_OK, or the failure, kept as the context's last error.
  int status() const;

 private:
  void refuse(const std::string &text);

  gpt2_context *context_;
  const char *function_;
  bool failed_ = false;
  std::string text_;
};

}  // namespace gpt2

// Ends an exported function with the first failed check: GPT2_CHECK(context, sizes({{"bytes", bytes}}).ids(...)).
#define GPT2_CHECK(context, ...) \
  if (gpt2::Check check(context, __func__); check.__VA_ARGS__.failed()) return check.status()
