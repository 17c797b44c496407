#pragma once

#include <atomic>

namespace gpt2 {

// The kernel that a thread runs on a CPU, which the message of gpt2_end_at_second_signal names; NULL: none.
extern std::atomic<const char *> running_kernel;

}  // namespace gpt2
