// The stacks on which the threads of a block run in turn, on one thread of the CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

// Saves the registers that a function must keep on the stack and the stack pointer in *from, and goes on at `to`. A
// switch takes some 3 ns; swapcontext, which also asks the system for the signal mask, 300.
extern "C" __attribute__((visibility("hidden"))) void gpt2_emulator_switch(void **from, void *to);

namespace gpt2::emulator {

struct Fiber {
  char *stack;
  void *place;  // where the fiber goes on: its stack pointer
};

class Fibers {
 public:
  // `main` runs on a fiber when the fiber is first entered. It never returns.
  explicit Fibers(void (*main)());
  ~Fibers();
  Fibers(const Fibers &) = delete;
  Fibers &operator=(const Fibers &) = delete;

  // An unused fiber. There are at most as many fibers as a block has threads.
  Fiber *take();
  void give(Fiber *fiber) { free_.push_back(fiber); }
  // Called from outside of fibers: runs the fiber until one calls `leave`.
  void enter(Fiber *fiber);
  // Called on a fiber: runs another, or returns to the caller of `enter`, until this fiber is entered or switched to.
  static void change(Fiber *from, Fiber *to) { gpt2_emulator_switch(&from->place, to->place); }
  void leave(Fiber *from);
  // Like `leave`, but no fiber is used again before `forget`, which discards the content of all stacks.
  [[noreturn]] void abandon();
  void forget();

  // The size of a stack without its guard: the largest local memory of a GPU's thread, and the emulator's needs.
  static constexpr size_t usable_bytes = 512 << 10;
  // The bytes of the fiber's stack below a frame, and whether an address is in the guard below the stack.
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
