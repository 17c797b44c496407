// The stacks on which the threads of a block run in turn, on one thread of the CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace gpt2::emulator {

struct Fiber;

class Fibers {
 public:
  // `main` runs on a fiber when it is first resumed, and again from its start after it has called `finish`.
  explicit Fibers(void (*main)());
  ~Fibers();
  Fibers(const Fibers &) = delete;
  Fibers &operator=(const Fibers &) = delete;

  // An unused fiber. There are at most as many fibers as a block has threads.
  Fiber *take();
  // Runs the fiber until it waits, finishes or abandons. Called from outside of fibers.
  void resume(Fiber *fiber);
  // Called on a fiber: returns to the caller of `resume`. `wait` returns when the fiber is resumed again.
  void wait(Fiber *fiber);
  void finish(Fiber *fiber);
  [[noreturn]] void abandon();
  // After `abandon`: discards the content of all stacks, so that every fiber can be taken.
  void forget();

  // The size of a stack without its guard: the largest local memory of a GPU's thread, and the emulator's needs.
  static constexpr size_t usable_bytes = 512 << 10;
  // The bytes of the fiber's stack below a frame, and whether an address is in the guard below the stack.
  size_t room(const Fiber *fiber, const void *frame) const;
  bool is_guard(const Fiber *fiber, const void *address) const;

  const char *begin() const;
  const char *end() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpt2::emulator
