// Argument checks of the exported functions. Each throws a Failure of GPT2_INVALID_ARGUMENT that says what was expected.
#pragma once

#include <initializer_list>
#include <utility>

#include "context.h"

namespace gpt2 {

using NamedSizes = std::initializer_list<std::pair<const char *, int64_t>>;
using NamedPointers = std::initializer_list<std::pair<const char *, const void *>>;

// A condition that must hold; `expected` says in the error what must hold.
void check_that(bool holds, const std::string &expected);
// Sizes that must be at least 1.
void check_sizes(NamedSizes);
// Tensors that must not be NULL.
void check_tensors(NamedPointers);
// Everything else that must not be NULL: events, graphs, communicators, host values.
void check_handles(NamedPointers);
// The bytes and pointers of a copy, which may be of nothing.
void check_copy(const void *destination, const void *source, int64_t bytes);
// A valid rank out of at least two, and a valid timeout.
void check_rank(int rank, int ranks, int timeout_milliseconds);
// Host values that must be in [least, limit); `values` may be NULL.
void check_ids(const char *name, const int32_t *values, int64_t count, int32_t least, int32_t limit);
// Host values [lines,length], each from the one before it in its line (the first from 0) to its index in the line;
// `values` may be NULL.
void check_causal(const char *name, const int32_t *values, int lines, int length);
// The workspace must hold `bytes`.
void check_scratch(const gpt2_context &, int64_t bytes);

}  // namespace gpt2
