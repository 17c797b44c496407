#include "block.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace gpt2::emulator {

using gpt2_emulator::Sizes;

namespace {

constexpr size_t shared_bytes = 232448;           // shared memory of a block on an H100
constexpr size_t static_shared_bytes = 48 << 10;  // for declared arrays
// Bytes between arrays, so that an access past the end of an array lies in no array.
constexpr size_t gap = 64;
// A block's shared memory, and room for gaps.
constexpr size_t arena_bytes = shared_bytes + (4 << 10);
// The offset of dynamic shared memory if a launch requests none: after all arrays, so that its use is detected.
constexpr size_t none_at = 64 << 10;
// The stack of signal handlers: a kernel's stack may be full.
constexpr size_t signal_stack_bytes = 64 << 10;
// Stack that the emulator's functions need on top of a kernel's.
constexpr size_t stack_reserve = 64 << 10;
// A thread that may be waiting in a loop lets the others run after this many atomic operations, or this many accesses.
constexpr int most_spins = 1000, most_accesses = 100000;

// The block that runs on this OS thread.
thread_local Block *own_block;

}  // namespace

Block &running() { return *own_block; }

Block *in_kernel() { return own_block && own_block->is_in_kernel() ? own_block : nullptr; }

std::string name_of(const Sizes &position, const Sizes &sizes) {
  if (sizes.y == 1 && sizes.z == 1) return std::to_string(position.x);
  return "(" + std::to_string(position.x) + ", " + std::to_string(position.y) + ", " + std::to_string(position.z) + ")";
}

Block::Block() : fibers_(&Block::fiber_main), shared_(nullptr, &std::free) {
  shared_.reset(static_cast<char *>(std::aligned_alloc(1024, (arena_bytes + 1023) / 1024 * 1024)));
  if (!shared_) throw std::bad_alloc();
  catch_signals();
  stack_t known{};
  sigaltstack(nullptr, &known);
  if (!(known.ss_flags & SS_DISABLE)) return;
  signal_stack_.resize(signal_stack_bytes);
  known = {};
  known.ss_sp = signal_stack_.data();
  known.ss_size = signal_stack_bytes;
  sigaltstack(&known, nullptr);
}

Block::~Block() {
  if (signal_stack_.empty()) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

void Block::prepare(unsigned index) {
  const Sizes threads = launch_->threads, blocks = launch_->blocks;
  const unsigned count = threads.x * threads.y * threads.z;
  const Sizes block = {index % blocks.x, index / blocks.x % blocks.y, index / blocks.x / blocks.y};
  threads_.assign(count, Thread());
  warps_.assign((count + 31) / 32, Warp());
  for (unsigned i = 0; i < count; i++) {
    threads_[i].position = {{i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y}, block, threads, blocks};
  }
  declarations_.clear();
  shared_used_ = launch_->dynamic_shared + gap;
  arrived_ = ended_ = predicates_ = 0;
  if (!launch_->memory) return;
  launch_->memory->set_stacks(fibers_.begin(), fibers_.end());
  launch_->memory->begin_block(index, count, shared_.get(), arena_bytes);
  launch_->memory->declare_shared(dynamic_shared(), launch_->dynamic_shared, "dynamic shared memory");
}

bool Block::run(const Launch &launch, unsigned index) {
  launch_ = &launch;
  prepare(index);
  own_block = this;
  const bool is_right = run_threads();
  own_block = nullptr;
  return is_right;
}

bool Block::run_threads() {
  has_failed_ = false;
  for (bool goes_on = true; goes_on && !has_failed_;) {
    goes_on = false;
    for (Thread &thread : threads_) {
      if (thread.state != State::fresh && thread.state != State::ready) continue;
      goes_on = true;
      resume(thread);
      if (has_failed_) break;
    }
  }
  if (!has_failed_) {
    const bool is_stuck = ended_ < threads_.size();
    if (is_stuck) explain_stuck();
    has_failed_ = has_unwritten() || is_stuck;
  }
  if (has_failed_) fibers_.forget();
  return !has_failed_;
}

void Block::resume(Thread &thread) {
  current_ = &thread;
  *launch_->module->here() = &thread.position;
  if (thread.state == State::fresh) thread.fiber = fibers_.take();
  thread.state = State::ready;
  thread.spins = 0;
  is_in_kernel_ = true;
  fibers_.resume(thread.fiber);
  is_in_kernel_ = false;
}

void Block::fiber_main() {
  for (;;) {
    Block &block = running();
    Thread &thread = *block.current_;
    block.launch_->kernel->call(block.launch_->kernel->function, block.launch_->arguments);
    block.step(0);
    block.ended_++;
    thread.state = State::ended;
    // Lanes that wait for a whole warp now wait for the remaining lanes only.
    const unsigned first = block.number_of(thread) / 32 * 32;
    for (unsigned i = first; i < first + 32 && i < block.threads_.size(); i++) {
      if (block.threads_[i].state == State::in_warp) block.complete_warp(first, block.threads_[i].mask);
    }
    block.fibers_.finish(thread.fiber);
  }
}

void Block::wait(State state) {
  current_->state = state;
  fibers_.wait(current_->fiber);
}

void Block::let_others_run() {
  current_->spins = 0;
  wait(State::ready);
}

// Called before each operation: the thread's last write is in memory now. Lets the others run after many operations.
void Block::step(int operations) {
  if (launch_->memory && !launch_->memory->is_resolved()) refuse(launch_->memory->resolve());
  if ((current_->spins += operations) > most_accesses) let_others_run();
}

void Block::refuse(const Fault &fault) {
  if (!fault.text.empty()) fail(fault.text, fault.caller, fault.other);
}

void Block::full_stack(const void *caller) {
  fail("fills its stack of " + std::to_string(Fibers::usable_bytes >> 10) +
           " KiB: look for a function that calls itself without end, or for large local arrays",
       caller);
}

void Block::enter(const void *caller) {
  if (fibers_.room(current_->fiber, __builtin_frame_address(0)) < stack_reserve) full_stack(caller);
}

void Block::signal(int signal, const void *address, const void *caller) {
  if (fibers_.is_guard(current_->fiber, address)) full_stack(caller);
  if (signal == SIGFPE) fail("divides an integer by 0, or the smallest integer by -1", caller);
  if (signal == SIGILL || signal == SIGTRAP) fail("reaches an instruction that traps", caller);
  char text[64];
  std::snprintf(text, sizeof text, "accesses memory that does not exist, at %p", address);
  fail(text, caller);
}

void *Block::allocate(size_t bytes) {
  step(0);
  return launch_->memory->allocate(bytes);
}

void Block::release(const void *memory, const void *caller) {
  step(0);
  if (!memory || launch_->memory->release(reinterpret_cast<uintptr_t>(memory))) return;
  fail("frees an address that malloc did not return, or that is free", caller);
}

void Block::fail(const std::string &text, const void *caller, const void *other, const char *file, unsigned line) {
  failure = {name_of(*current_) + " " + text, caller, other, file, line};
  // Unless the failure is a race, a read of uninitialized memory may be the cause: report that read first.
  if (!failure.other) has_unwritten();
  fail_as_it_is();
}

void Block::fail_as_it_is() {
  has_failed_ = true;
  fibers_.abandon();
}

std::string Block::name_of(const Thread &thread) const {
  const auto &[position, block, threads, blocks] = thread.position;
  return "thread " + emulator::name_of(position, threads) + " of block " + emulator::name_of(block, blocks);
}

// True, with `failure` set, if a thread has read uninitialized shared memory.
bool Block::has_unwritten() {
  if (!launch_->memory || launch_->memory->unwritten().text.empty()) return false;
  const auto &[text, caller, thread] = launch_->memory->unwritten();
  failure = {name_of(threads_[thread]) + " " + text, caller, nullptr, "", 0};
  return true;
}

void *Block::shared(const void *declaration, size_t bytes, size_t alignment, const char *names, const void *caller) {
  for (const Declaration &each : declarations_) {
    if (each.key == declaration) return each.memory;
  }
  const size_t first = (shared_used_ + alignment - 1) / alignment * alignment;
  const size_t declared = first + bytes - launch_->dynamic_shared - gap * (declarations_.size() + 1);
  const std::string what = "declares " + std::string(names) + " (shared memory)";
  if (declared > static_shared_bytes) {
    fail(what + ": a block's declared arrays have " + std::to_string(declared) + " bytes with it; the most is " +
             std::to_string(static_shared_bytes) + ", more needs extern __shared__ memory",
         caller);
  }
  if (declared + launch_->dynamic_shared > shared_bytes || first + bytes > arena_bytes) {
    fail(what + ": " + std::to_string(declared) + " bytes of declared arrays and the launch's " +
             std::to_string(launch_->dynamic_shared) + " of dynamic shared memory are more than a block's " +
             std::to_string(shared_bytes),
         caller);
  }
  shared_used_ = first + bytes + gap;
  declarations_.push_back({declaration, shared_.get() + first});
  if (launch_->memory) launch_->memory->declare_shared(shared_.get() + first, bytes, names);
  return declarations_.back().memory;
}

void *Block::dynamic_shared() { return shared_.get() + (launch_->dynamic_shared > 0 ? 0 : none_at); }

void Block::access(const void *memory, size_t bytes, bool is_write, const void *caller) {
  step(1);
  refuse(launch_->memory->access(reinterpret_cast<uintptr_t>(memory), bytes, number_of(*current_), is_write, false, caller));
}

void Block::atomic(const void *memory, size_t bytes, const void *caller) {
  step(most_accesses / most_spins);
  if (!launch_->memory) return;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const unsigned number = number_of(*current_);
  refuse(launch_->memory->access(address, bytes, number, true, true, caller));
  launch_->memory->atomic(number);
}

void Block::copy(void *to, const void *from, size_t bytes, size_t zeros, const void *caller) {
  zeros = std::min(zeros, bytes);
  if (launch_->memory) {
    if (bytes > zeros) access(from, bytes - zeros, false, caller);
    access(to, bytes, true, caller);
    launch_->memory->begin_copy(reinterpret_cast<uintptr_t>(to), bytes, number_of(*current_), caller);
  }
  std::memcpy(to, from, bytes - zeros);
  std::memset(static_cast<char *>(to) + bytes - zeros, 0, zeros);
}

void Block::commit() {
  if (launch_->memory) launch_->memory->commit(number_of(*current_));
}

void Block::wait_for_copies(size_t prior, const void *caller) {
  step(0);
  if (launch_->memory) launch_->memory->end_copies(number_of(*current_), prior, caller);
}

void Block::fence() {
  if (launch_->memory) launch_->memory->fence(number_of(*current_));
}

const gpt2_emulator::Host host = {
    [](const void *declaration, size_t bytes, size_t alignment, const char *names, const void *caller) {
      return running().shared(declaration, bytes, alignment, names, caller);
    },
    [] { return running().dynamic_shared(); },
    [](int predicate, const void *caller) { return running().barrier(predicate, caller); },
    [](unsigned mask, uint64_t value, bool orders_memory, unsigned *lanes, const void *caller) {
      return running().exchange(mask, value, orders_memory, lanes, caller);
    },
    [](const void *memory, size_t bytes, const void *caller) { running().atomic(memory, bytes, caller); },
    [] { running().fence(); },
    [](void *to, const void *from, size_t bytes, size_t zeros, const void *caller) {
      running().copy(to, from, bytes, zeros, caller);
    },
    [] { running().commit(); },
    [](size_t prior, const void *caller) { running().wait_for_copies(prior, caller); },
    [](const void *memory, size_t bytes, bool is_write, const void *caller) {
      // Nothing runs while a module is loaded.
      if (own_block) own_block->access(memory, bytes, is_write, caller);
    },
    [](const void *caller) {
      if (own_block) own_block->enter(caller);
    },
    [](size_t bytes) { return running().allocate(bytes); },
    [](void *memory, const void *caller) { running().release(memory, caller); },
    [](const char *text, const char *file, unsigned line, const void *caller) {
      running().fail(text, caller, nullptr, file ? file : "", line);
    },
};

}  // namespace gpt2::emulator
