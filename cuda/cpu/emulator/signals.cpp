// Signal handlers. A signal in a kernel (an access that no check sees, a full stack) fails the launch, and the process continues. A
// signal in host code that accesses device memory or freed memory is reported, and the access is repeated.
#include <signal.h>
#include <ucontext.h>

#include <mutex>

#include "block.h"

namespace gpt2::emulator {

namespace {

constexpr int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
struct sigaction others[NSIG];

// The instruction that raised the signal.
const char *instruction(const ucontext_t *context) {
#ifdef __x86_64__
  return reinterpret_cast<const char *>(context->uc_mcontext.gregs[REG_RIP]);
#else
  return reinterpret_cast<const char *>(context->uc_mcontext.pc);
#endif
}

const char *does([[maybe_unused]] const ucontext_t *context) {
#ifdef __x86_64__
  return context->uc_mcontext.gregs[REG_ERR] & 2 ? "writes" : "reads";
#else
  return "accesses";
#endif
}

void handle(int signal, siginfo_t *info, void *data) {
  const auto *context = static_cast<ucontext_t *>(data);
  if (Block *block = in_kernel()) block->signal(signal, info->si_addr, instruction(context) + 1);
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (signal == SIGSEGV && (closed_to_host(address).bytes > 0 || is_in(arena_of(false), address))) {
    return access_by_host(info->si_addr, does(context), instruction(context) + 1);
  }
  const struct sigaction &other = others[signal];
  if (other.sa_flags & SA_SIGINFO) return other.sa_sigaction(signal, info, data);
  if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) return other.sa_handler(signal);
  // Restores the earlier action, ignore or default: the instruction then runs again, and ends the process.
  sigaction(signal, &other, nullptr);
}

}  // namespace

void catch_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = handle;
    // SA_NODEFER, because the handler leaves by a jump, which does not unblock the signal.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (const int signal : caught) sigaction(signal, &action, &others[signal]);
  });
}

}  // namespace gpt2::emulator
