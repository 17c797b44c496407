// Runs a block of a CUDA kernel on one OS thread. Its CUDA threads are fibers, which run in turn and switch where they must wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../emulator/interface.h"
#include "fibers.h"
#include "memory.h"

namespace gpt2::emulator {

// The shared memory of a block on an H100, in bytes.
constexpr int shared_limit = 232448;

enum class State : uint8_t { ready, at_barrier, in_warp, ended };

// An emulated CUDA thread. A Thread fills one cache line, because a switch of fibers touches two Threads.
struct alignas(64) Thread {
  gpt2_emulator::Sizes position{};
  State state = State::ready;  // not set to `ended`: see `state_of`
  Fiber *fiber = nullptr;
  // The code address at which the thread waits, and the arguments of the operation that it waits for.
  const void *caller = nullptr;
  uint64_t value = 0;
  unsigned mask = 0;
  int predicate = 0;
  // The lanes that took part in the thread's last warp operation.
  unsigned lanes = 0;
  int spins = 0;  // operations since the thread last let the others run

  void begin(Fiber *on) { *this = {position, State::ready, on}; }
};

// Runs one CUDA block after another on an OS thread. Fibers and shared memory are kept from block to block.
class Block {
 public:
  Block();
  ~Block();
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

  // Runs block `index` of the launch that `id` identifies, or with `goes_on` continues it after a barrier of the grid.
  // Checks nothing if `memory` is NULL. False if the block failed; `failure` then has the reason.
  bool run(const gpt2_emulator::Launch &launch, uint64_t id, Memory *memory, int64_t index, bool goes_on = false);
  bool waits_for_grid() const { return at_grid_; }

  Defect failure;

  // Called by kernels through `program_host` in block.cpp.
  void *shared(const void *declaration, size_t bytes, size_t alignment, const char *names, const void *caller);
  void *dynamic_shared() { return shared_.get() + (launch_->dynamic_shared > 0 ? 0 : none_at); }
  unsigned barrier(int predicate, const void *caller);
  void grid_barrier(const void *caller);
  const uint64_t *exchange(unsigned mask, uint64_t value, bool orders_memory, unsigned *lanes, const void *caller);
  void undefined(unsigned lane, const void *caller);
  unsigned active();
  void atomic(const void *memory, size_t bytes, const void *caller);
  void fence() {
    if (memory_) memory_->fence(number_of(*current_));
  }
  void copy(void *to, const void *from, size_t bytes, size_t zeros, const void *caller);
  void commit() {
    if (memory_) memory_->commit(number_of(*current_));
  }
  void wait_for_copies(size_t prior, const void *caller) {
    step(0);
    if (memory_) memory_->end_copies(number_of(*current_), prior, caller);
  }
  void access(const void *memory, size_t bytes, bool is_write, const void *caller) {
    // An unchecked block gets here, too, from a function that exists only in a version with checks.
    if (!memory_) return;
    Memory &checker = *memory_;
    if (checker.has_suspect()) checker.resolve();
    if (++checker.accesses > checker.accesses_to_rest) let_others_run(caller);
    check(memory, bytes, is_write, false, caller);
  }
  void enter(const void *caller);
  void *allocate(size_t bytes);
  void release(void *memory, const void *caller);
  // Fails the launch with the defect, to whose text the name of the running thread is added.
  [[noreturn]] void fail(const Defect &defect);
  // Fails the launch after a signal that the kernel raised by an access to `address`, at the instruction before `caller`.
  [[noreturn]] void signal(int signal, const void *address, const void *caller);

 private:
  struct Declaration {
    const void *key;
    char *memory;
    size_t bytes;
    const char *names;
  };
  struct Warp {
    uint64_t results[32];
    // Masks of lanes. unread: lanes that have not read the results of a complete operation; waiting: lanes in an operation; ended:
    // lanes that have ended, or that the block does not have; looking: lanes in __activemask.
    unsigned unread = 0, waiting = 0, ended = 0, looking = 0;
  };

  void prepare(unsigned index, bool goes_on);
  bool go_on(bool has_ended);
  void set_ready(unsigned number) { ready_[number / 64] |= uint64_t{1} << number % 64; }
  void end(unsigned first, unsigned count);
  void end_looped();
  State state_of(const Thread &thread) const {
    return warps_[number_of(thread) / 32].ended >> number_of(thread) % 32 & 1 ? State::ended : thread.state;
  }
  void wait(State state);
  void let_others_run(const void *caller = nullptr);
  // Called before each operation: decides a suspected race, as the last write is in memory now. Lets others run after many operations.
  void step(int operations, const void *caller = nullptr) {
    if (memory_ && memory_->has_suspect()) memory_->resolve();
    if (*here_.fresh != looped_) end_looped();
    if ((current_->spins += operations) > most_accesses) let_others_run(caller);
  }
  void check(const void *memory, size_t bytes, bool is_write, bool is_atomic, const void *caller) {
    if (!memory_->access(reinterpret_cast<uintptr_t>(memory), bytes, is_write, is_atomic, caller)) fail(memory_->fatal);
  }
  [[noreturn]] void full_stack(const void *caller);
  void explain_stuck();
  void check_place(const Thread &other, const char *does, const void *caller);
  [[noreturn]] __attribute__((noinline)) void stuck(const char *text, const void *caller) { fail({Defect::Kind::stuck, text, caller}); }
  void complete_warp(unsigned first, unsigned mask);
  unsigned number_of(const Thread &thread) const { return static_cast<unsigned>(&thread - threads_.data()); }
  std::string name_of(const Thread &thread) const;
  static void fiber_main();

  // The offset of dynamic shared memory if a launch requests none: after all arrays, so that an access to it is detected.
  static constexpr size_t none_at = 64 << 10;
  // After this many atomic operations, or accesses, a thread lets the others run: it may be waiting for them in a loop.
  static constexpr int most_spins = 1000, most_accesses = 100000;
  // In __activemask a lane lets the others run at most this often, because one of them may wait for the lane in a loop.
  static constexpr int most_looks = 100;

  const gpt2_emulator::Launch *launch_ = nullptr;
  Memory *memory_ = nullptr;
  gpt2_emulator::Position here_{};
  uint64_t id_ = 0;
  std::vector<Thread> threads_;
  uint64_t all_[16] = {}, ready_[16] = {};  // bits. all_: every thread; ready_: threads that have not begun or can continue
  unsigned begun_ = 0;       // number of the first thread that has not begun
  unsigned looped_ = 0;      // number of threads, none begun, that the running fiber may run in a loop
  std::vector<Warp> warps_;
  std::vector<Declaration> declarations_;
  Fibers fibers_;
  std::unique_ptr<char, void (*)(void *)> shared_;
  size_t shared_used_ = 0;
  Thread *current_ = nullptr;
  unsigned arrived_ = 0, ended_ = 0, counted_ = 0, predicates_ = 0;
  bool has_failed_ = false, at_grid_ = false;
  // When a thread first let the others run.
  std::chrono::steady_clock::time_point rested_{};
  std::vector<char> signal_stack_;
};

// The calling OS thread's Block number `index`, made at its first use. A cooperative launch uses one Block for each block.
Block &block_of_thread(size_t index = 0);
// The block that the calling OS thread runs, or NULL if it runs no kernel.
Block *in_kernel();
// Turns signals that a kernel raises into the block's failure. Only the first call has an effect.
void catch_signals();

// Set if a kernel prints or reads a clock: such a launch is not skipped when it is repeated.
extern std::atomic<bool> has_effect;
// Reports that host code accesses device memory or freed memory (`does`: "reads", "writes"), and makes it accessible for a while.
void access_by_host(const void *memory, const char *does, const void *caller);
// Reports that host code frees memory of the CUDA runtime by free or delete. Returns false for other memory.
bool release_by_host(const void *memory, const void *caller);

// The text "thread 3 of block (0, 1, 0)", from the indices and the sizes of the launch.
std::string name_of(unsigned thread, unsigned block, const gpt2_emulator::Sizes &threads, const gpt2_emulator::Sizes &blocks);

}  // namespace gpt2::emulator
