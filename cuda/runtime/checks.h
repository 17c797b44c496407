// Argument checks of the exported functions. Each throws a Failure of GPT2_INVALID_ARGUMENT that says what was expected.
#pragma once

#include <initializer_list>
#include <utility>

#include "context.h"

namespace gpt2 {

using NamedSizes = std::initializer_list<std::pair<const char *, int64_t>>;
using NamedPointers = std::initializer_list<std::pair<const char *, const void *>>;

// Throws unless `holds`; the error's text is "expected " and `expected`.
void check_that(bool holds, const std::string &expected);
// Sizes that must be at least 1.
void check_sizes(NamedSizes);
void check_tensors(NamedPointers);
// Events, graphs, communicators and host memory that must not be NULL.
void check_handles(NamedPointers);
// Bytes of a copy (0 is allowed), and its pointers, which may be NULL only for 0 bytes.
void check_copy(const void *destination, const void *source, int64_t bytes);
// A valid rank out of at least two, and a valid timeout.
void check_rank(int rank, int ranks, int timeout_milliseconds);
// Host values that must be in [least, limit); `values` may be NULL.
void check_ids(const char *name, const int32_t *values, int64_t count, int32_t least, int32_t limit);
// Checks a host array [lines,length], the `first` of attention: in each line no value is negative or less than the value
// before it, and value i is at most i. `values` may be NULL.
void check_causal(const char *name, const int32_t *values, int lines, int length);
void check_scratch(const gpt2_context &, int64_t bytes);

}  // namespace gpt2
