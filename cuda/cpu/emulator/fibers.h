// Fibers: stacks for the CUDA threads of a block, which run in turn on one OS thread by switching stacks.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

// Saves the callee-saved registers on the stack and the stack pointer in *from, then continues the stack `to`. A
// switch takes some 3 ns; swapcontext takes 300 ns, because it also asks the kernel for the signal mask.
extern "C" __attribute__((visibility("hidden"))) void gpt2_emulator_switch(void **from, void *to);

namespace gpt2::emulator {

struct Fiber {
  char *stack;
  void *place;  // the stack pointer from which a switch continues the fiber
};

class Fibers {
 public:
  // `main` starts on a fiber when the fiber is first entered, and must never return.
  explicit Fibers(void (*main)());
  ~Fibers();
  Fibers(const Fibers &) = delete;
  Fibers &operator=(const Fibers &) = delete;

  // Returns an unused fiber. At most 1024 exist, as a CUDA block has at most 1024 threads.
  Fiber *take();
  void give(Fiber *fiber) { free_.push_back(fiber); }
  // Called on the OS thread's stack: runs fibers, from this one on, until one calls `leave`.
  void enter(Fiber *fiber) { gpt2_emulator_switch(&outside_, fiber->place); }
  // Called on fiber `from`: `change` continues `to`, `leave` returns from `enter`; both return when `from` continues.
  static void change(Fiber *from, Fiber *to) { gpt2_emulator_switch(&from->place, to->place); }
  void leave(Fiber *from) { gpt2_emulator_switch(&from->place, outside_); }
  // Like `leave`, but never returns. `forget` must follow: it discards the content of all stacks.
  [[noreturn]] void abandon();
  void forget();

  // The bytes of a stack that a kernel may use, without guard and reserve: the most local memory of a GPU thread.
  static constexpr size_t usable_bytes = 512 << 10;
  // `room`: the stack's free bytes below `frame`. `is_guard`: whether `address` is in the guard below the stack.
  static size_t room(const Fiber *fiber, const void *frame);
  static bool is_guard(const Fiber *fiber, const void *address);

  const char *begin() const { return memory_; }
  const char *end() const;

 private:
  void restart(Fiber &fiber) const;

  void (*const main_)();
  char *memory_;  // all stacks, adjacent; the system allocates pages only for the stacks that are used
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber *> free_;
  void *outside_ = nullptr;
};

}  // namespace gpt2::emulator
