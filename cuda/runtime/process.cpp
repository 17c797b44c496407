// Ends a process whose threads may never return from a driver.
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "../gpt2.h"

int gpt2_end_later(const void *text, int64_t bytes, int32_t milliseconds, int32_t exit_code) try {
  if (!text || bytes < 0) return GPT2_INVALID_ARGUMENT;
  std::thread([line = std::string(static_cast<const char *>(text), static_cast<size_t>(bytes)) + "\n", milliseconds,
               exit_code] {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    // A failed write cannot be reported.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    _exit(exit_code);
  }).detach();
  return GPT2_OK;
} catch (...) {
  return GPT2_OUT_OF_MEMORY;  // for the text, or for a thread
}
