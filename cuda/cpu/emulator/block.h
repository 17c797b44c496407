// A block of a kernel on one thread of the CPU: its threads are fibers, which run in turn and switch where they wait
// for each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../emulator/interface.h"
#include "fibers.h"
#include "memory.h"

namespace gpt2::emulator {

// A launch of a kernel, the same for all of its blocks.
struct Launch {
  const gpt2_emulator::Module *module = nullptr;
  const gpt2_emulator::Kernel *kernel = nullptr;
  const char *arguments = nullptr;
  gpt2_emulator::Sizes blocks{}, threads{};
  size_t dynamic_shared = 0;
  Memory *memory = nullptr;  // NULL to run without checks
  // Whether two calls come from the same source line.
  std::function<bool(const void *, const void *)> is_same_line;
};

// A failure and its place: an address in the module, or a file and a line. `other` is the place of the thread that this
// thread races with or waits for.
struct Failure {
  std::string text;
  const void *caller = nullptr, *other = nullptr;
  std::string file;
  unsigned line = 0;
};

enum class State : uint8_t { fresh, ready, at_barrier, in_warp, ended };

struct Thread {
  gpt2_emulator::Position position{};
  State state = State::fresh;
  Fiber *fiber = nullptr;
  // The place where the thread waits, and the arguments of its operation.
  const void *caller = nullptr;
  unsigned mask = 0;
  uint64_t value = 0;
  // The lanes that took part in the thread's last warp operation.
  unsigned lanes = 0;
  int predicate = 0;
  int spins = 0;  // operations since the thread last let the others run
};

// The emulated block of an OS thread. Fibers and shared memory are kept from block to block.
class Block {
 public:
  Block();
  ~Block();
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

  // Runs the block with index `index`. False if the block failed; `failure` then has the reason.
  bool run(const Launch &launch, unsigned index);

  Failure failure;

  // Called by kernels, through the table in block.cpp.
  void *shared(const void *declaration, size_t bytes, size_t alignment, const char *names, const void *caller);
  void *dynamic_shared();
  unsigned barrier(int predicate, const void *caller);
  const uint64_t *exchange(unsigned mask, uint64_t value, bool orders_memory, unsigned *lanes, const void *caller);
  void atomic(const void *memory, size_t bytes, const void *caller);
  void fence();
  void copy(void *to, const void *from, size_t bytes, size_t zeros, const void *caller);
  void commit();
  void wait_for_copies(size_t prior, const void *caller);
  void access(const void *memory, size_t bytes, bool is_write, const void *caller);
  void enter(const void *caller);
  void *allocate(size_t bytes);
  void release(const void *memory, const void *caller);
  [[noreturn]] void fail(const std::string &text, const void *caller, const void *other = nullptr, const char *file = "",
                         unsigned line = 0);
  // Reports a signal that the kernel raised by an access to `address`, at the instruction before `caller`.
  [[noreturn]] void signal(int signal, const void *address, const void *caller);
  bool is_in_kernel() const { return is_in_kernel_; }

 private:
  struct Declaration {
    const void *key;
    char *memory;
  };
  struct Warp {
    uint64_t results[32];
    unsigned unread = 0;  // lanes that an operation has released, and that have not read its results
  };

  void prepare(unsigned index);
  bool run_threads();
  [[noreturn]] void fail_as_it_is();
  void resume(Thread &thread);
  void wait(State state);
  void let_others_run();
  void step(int operations);
  void refuse(const Fault &fault);
  [[noreturn]] void full_stack(const void *caller);
  void explain_stuck();
  bool has_unwritten();
  void complete_warp(unsigned first, unsigned mask);
  unsigned number_of(const Thread &thread) const { return static_cast<unsigned>(&thread - threads_.data()); }
  std::string name_of(const Thread &thread) const;
  static void fiber_main();

  const Launch *launch_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Declaration> declarations_;
  Fibers fibers_;
  std::unique_ptr<char, void (*)(void *)> shared_;
  size_t shared_used_ = 0;
  Thread *current_ = nullptr;
  unsigned arrived_ = 0, ended_ = 0, predicates_ = 0;
  bool has_failed_ = false, is_in_kernel_ = false;
  std::vector<char> signal_stack_;
};

extern const gpt2_emulator::Host host;

// The block that the calling OS thread runs.
Block &running();
// running() if the OS thread is in a kernel's code; NULL in the emulator's code.
Block *in_kernel();
// Turns signals that a kernel raises into the block's failure. Only the first call has an effect.
void catch_signals();

std::string name_of(const gpt2_emulator::Sizes &position, const gpt2_emulator::Sizes &sizes);

}  // namespace gpt2::emulator
