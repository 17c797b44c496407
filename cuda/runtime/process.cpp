// Ends a process whose threads may never return from a driver or a kernel.
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "../gpt2.h"

namespace gpt2 {

std::atomic<const char *> running_kernel{nullptr};

}  // namespace gpt2

namespace {

// Global, because signal handlers get no pointer to data: the write end of a pipe, and the handlers installed earlier.
int arrivals = -1;
struct sigaction handlers[NSIG];

void end_later(std::chrono::milliseconds after, const std::string &line, int exit_code) {
  std::this_thread::sleep_for(after);
  // Nothing can report a failed write.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(exit_code);
}

void on_signal(int signal, siginfo_t *info, void *context) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = write(arrivals, &byte, 1);
  const struct sigaction &before = handlers[signal];
  if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal, info, context);
  else before.sa_handler(signal);
  errno = error;
}

void watch(int signals, std::chrono::milliseconds apart, std::chrono::milliseconds grace) {
  std::chrono::steady_clock::time_point first{};
  for (unsigned char signal; read(signals, &signal, 1) == 1;) {
    const auto now = std::chrono::steady_clock::now();
    if (first == std::chrono::steady_clock::time_point{}) first = now;
    if (now - first < apart) continue;
    const char *kernel = gpt2::running_kernel;
    const std::string where = kernel ? ", while the kernel " + std::string(kernel) + " ran" : "";
    end_later(grace, "stopped at once" + where + "\n", 128 + signal);
  }
}

}  // namespace

int gpt2_end_later(const void *text, int64_t bytes, int32_t milliseconds, int32_t exit_code) try {
  if (!text || bytes < 0) return GPT2_INVALID_ARGUMENT;
  const std::string line(static_cast<const char *>(text), static_cast<size_t>(bytes));
  std::thread(end_later, std::chrono::milliseconds(milliseconds), line + "\n", exit_code).detach();
  return GPT2_OK;
} catch (...) {
  return GPT2_OUT_OF_MEMORY;  // for the text, or for a thread
}

int gpt2_end_at_second_signal(const int32_t *signals, int64_t count, int32_t apart, int32_t grace) try {
  if (!signals || count < 0) return GPT2_INVALID_ARGUMENT;
  if (arrivals >= 0) return GPT2_OK;
  int ends[2];
  if (pipe(ends) != 0) return GPT2_DEVICE_ERROR;
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  arrivals = ends[1];
  std::thread(watch, ends[0], std::chrono::milliseconds(apart), std::chrono::milliseconds(grace)).detach();
  for (int64_t i = 0; i < count; i++) {
    struct sigaction action;
    // Skips a signal without a handler: the first such signal already ends the process, or all are ignored.
    if (sigaction(signals[i], nullptr, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) continue;
    handlers[signals[i]] = action;
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = on_signal;
    sigaction(signals[i], &action, nullptr);
  }
  return GPT2_OK;
} catch (...) {
  return GPT2_OUT_OF_MEMORY;  // for a thread
}
