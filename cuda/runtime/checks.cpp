// Argument checks of the exported functions; see checks.h.
#include "checks.h"

#include <exception>
#include <new>

namespace gpt2 {

int fail(gpt2_context *context, int status, const char *function, const std::string &text, int failed_rank) {
  context->failed_rank = failed_rank;
  context->error = std::string(function) + ": " + text;
  return status;
}

int thrown(gpt2_context *context, const char *function) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc &) {
      return fail(context, GPT2_OUT_OF_MEMORY, function, "out of host memory");
    } catch (const std::exception &error) {
      // For example, a thread could not be started.
      return fail(context, GPT2_DEVICE_ERROR, function, error.what());
    }
  } catch (...) {
    // Not even memory for the message.
    return GPT2_OUT_OF_MEMORY;
  }
}

void Check::refuse(const std::string &text) {
  if (failed_) return;
  failed_ = true;
  text_ = text;
}

Check &Check::sizes(std::initializer_list<std::pair<const char *, int64_t>> sizes) {
  for (const auto &[name, size] : sizes) {
    if (size < 1) refuse(std::string("expected ") + name + " of at least 1, got " + std::to_string(size));
  }
  return *this;
}

Check &Check::tensors(std::initializer_list<std::pair<const char *, const void *>> tensors) {
  for (const auto &[name, pointer] : tensors) {
    if (!pointer) refuse(std::string("expected a tensor for ") + name + ", got NULL");
  }
  return *this;
}

Check &Check::handles(std::initializer_list<std::pair<const char *, const void *>> handles) {
  for (const auto &[name, pointer] : handles) {
    if (!pointer) refuse(std::string("expected ") + name + ", got NULL");
  }
  return *this;
}

Check &Check::rank(int rank, int ranks, int timeout_milliseconds) {
  that(ranks >= 2 && rank >= 0 && rank < ranks,
       "one of at least 2 ranks, got rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  return sizes({{"timeout_milliseconds", timeout_milliseconds}});
}

Check &Check::that(bool holds, const std::string &expected) {
  if (!holds) refuse("expected " + expected);
  return *this;
}

Check &Check::ids(const char *name, const int32_t *values, int64_t count, int32_t least, int32_t limit) {
  if (failed_ || !values) return *this;
  for (int64_t i = 0; i < count; i++) {
    if (values[i] < least || values[i] >= limit) {
      refuse("expected " + std::string(name) + " from " + std::to_string(least) + " to " + std::to_string(limit - 1) +
             ", got " + std::to_string(values[i]) + " at position " + std::to_string(i));
      break;
    }
  }
  return *this;
}

Check &Check::causal(const char *name, const int32_t *values, int lines, int length) {
  if (failed_ || !values) return *this;
  for (int line = 0; line < lines; line++, values += length) {
    for (int i = 0, least = 0; i < length; least = values[i++]) {
      if (values[i] >= least && values[i] <= i) continue;
      refuse("expected " + std::string(name) + " from " + std::to_string(least) + " to " + std::to_string(i) +
             ", got " + std::to_string(values[i]) + " at [" + std::to_string(line) + "," + std::to_string(i) + "]");
      return *this;
    }
  }
  return *this;
}

Check &Check::scratch(int64_t bytes) {
  if (bytes > context_->workspace_bytes) {
    refuse("expected a workspace of at least " + std::to_string(bytes) + " bytes, got " +
           std::to_string(context_->workspace_bytes));
  }
  return *this;
}

int Check::status() const { return failed_ ? fail(context_, GPT2_INVALID_ARGUMENT, function_, text_) : GPT2_OK; }

}  // namespace gpt2
