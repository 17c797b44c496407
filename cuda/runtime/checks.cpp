// Argument checks of the exported functions, and the conversion of exceptions to a status and an error text.
#include "checks.h"

#include <exception>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
// koffi (the FFI) runs calls on a stack unknown to AddressSanitizer, so after a throw the frames there stay poisoned.
#define FORGET_FRAMES_BELOW() __asan_unpoison_memory_region(static_cast<char *>(__builtin_frame_address(0)) - 65536, 65536)
#define WITHOUT_MARKS __attribute__((no_sanitize("address")))
#else
#define FORGET_FRAMES_BELOW()
#define WITHOUT_MARKS
#endif

namespace gpt2 {

WITHOUT_MARKS int thrown(gpt2_context *context, const char *function) noexcept {
  FORGET_FRAMES_BELOW();
  const auto keep = [&](int status, const std::string &text, int rank = -1) {
    context->failed_rank = rank;
    context->error = std::string(function) + ": " + text;
    return status;
  };
  try {
    try {
      throw;
    } catch (const Failure &failure) {
      return keep(failure.status, failure.text, failure.rank);
    } catch (const std::bad_alloc &) {
      return keep(GPT2_OUT_OF_MEMORY, "out of host memory");
    } catch (const std::exception &error) {
      // For example std::system_error, if a thread could not be started.
      return keep(GPT2_DEVICE_ERROR, error.what());
    }
  } catch (...) {
    // The message itself could not be allocated.
    return GPT2_OUT_OF_MEMORY;
  }
}

void check_that(bool holds, const std::string &expected) {
  if (!holds) throw Failure{GPT2_INVALID_ARGUMENT, "expected " + expected};
}

void check_sizes(NamedSizes sizes) {
  for (const auto &[name, size] : sizes) {
    if (size < 1) check_that(false, std::string(name) + " of at least 1, got " + std::to_string(size));
  }
}

void check_tensors(NamedPointers tensors) {
  for (const auto &[name, pointer] : tensors) {
    if (!pointer) check_that(false, std::string("a tensor for ") + name + ", got NULL");
  }
}

void check_handles(NamedPointers handles) {
  for (const auto &[name, pointer] : handles) {
    if (!pointer) check_that(false, std::string(name) + ", got NULL");
  }
}

void check_copy(const void *destination, const void *source, int64_t bytes) {
  check_that(bytes >= 0, "bytes of at least 0, got " + std::to_string(bytes));
  if (bytes > 0) check_tensors({{"destination", destination}, {"source", source}});
}

void check_rank(int rank, int ranks, int timeout_milliseconds) {
  check_that(ranks >= 2 && rank >= 0 && rank < ranks,
             "one of at least 2 ranks, got rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  check_sizes({{"timeout_milliseconds", timeout_milliseconds}});
}

void check_ids(const char *name, const int32_t *values, int64_t count, int32_t least, int32_t limit) {
  for (int64_t i = 0; values && i < count; i++) {
    if (values[i] >= least && values[i] < limit) continue;
    check_that(false, std::string(name) + " from " + std::to_string(least) + " to " + std::to_string(limit - 1) +
                          ", got " + std::to_string(values[i]) + " at position " + std::to_string(i));
  }
}

void check_causal(const char *name, const int32_t *values, int lines, int length) {
  for (int line = 0; values && line < lines; line++, values += length) {
    for (int i = 0, least = 0; i < length; least = values[i++]) {
      if (values[i] >= least && values[i] <= i) continue;
      check_that(false, std::string(name) + " from " + std::to_string(least) + " to " + std::to_string(i) + ", got " +
                            std::to_string(values[i]) + " at [" + std::to_string(line) + "," + std::to_string(i) + "]");
    }
  }
}

void check_scratch(const gpt2_context &context, int64_t bytes) {
  check_that(bytes <= context.workspace_bytes, "a workspace of at least " + std::to_string(bytes) + " bytes, got " +
                                                   std::to_string(context.workspace_bytes));
}

}  // namespace gpt2
