#pragma once

#include <atomic>

namespace gpt2 {

// The kernel that runs on the CPU, or NULL. The message of gpt2_end_at_second_signal names the kernel.
extern std::atomic<const char *> running_kernel;

}  // namespace gpt2
