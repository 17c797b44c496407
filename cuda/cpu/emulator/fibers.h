// Stacks on which the threads of a block run in turn, on one thread of the CPU.
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

  // A fiber that nothing runs on; at most as many as a block has threads.
  Fiber *take();
  // Runs it until it waits, finishes or abandons. Called from outside of fibers.
  void resume(Fiber *fiber);
  // Called on a fiber: back to where it was resumed. `wait` returns when it is resumed again.
  void wait(Fiber *fiber);
  void finish(Fiber *fiber);
  [[noreturn]] void abandon();
  // After `abandon`: what is left on all stacks is forgotten, and every fiber can be taken.
  void forget();

  // Of a stack, but for the guard below it: what a thread's local memory may be on a GPU, and what the emulator needs.
  static constexpr size_t usable_bytes = 512 << 10;
  // How much of the fiber's stack is left at a frame, and whether an address is in the guard below it.
  size_t room(const Fiber *fiber, const void *frame) const;
  bool is_guard(const Fiber *fiber, const void *address) const;

  const char *begin() const;
  const char *end() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpt2::emulator
