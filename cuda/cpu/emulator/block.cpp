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

// The block that runs on this OS thread. Initial-exec, because other TLS models cost a call for each access.
static thread_local Block *own_block __attribute__((tls_model("initial-exec")));

namespace {

constexpr size_t static_shared_bytes = 48 << 10;  // the most bytes of declared __shared__ arrays in a block
// Bytes between arrays, so that an access past the end of an array lies in no array.
constexpr size_t gap = 64;
// Bytes of a block's shared memory and of the gaps between its arrays.
constexpr size_t arena_bytes = shared_limit + (4 << 10);
// Bytes of the separate stack on which signal handlers run, because a kernel's stack may be full.
constexpr size_t signal_stack_bytes = 256 << 10;
// Bytes of stack that the emulator's functions need below a kernel's frames.
constexpr size_t stack_reserve = 64 << 10;
}  // namespace

Block *in_kernel() { return own_block; }

Block &block_of_thread(size_t index) {
  // Blocks, with their fibers' stacks, are kept for the next launch.
  static thread_local std::vector<std::unique_ptr<Block>> blocks;
  while (blocks.size() <= index) blocks.push_back(std::make_unique<Block>());
  return *blocks[index];
}

std::string name_of(unsigned thread, unsigned block, const Sizes &threads, const Sizes &blocks) {
  const auto at = [](unsigned index, const Sizes &sizes) {
    const auto [x, y, z] = sizes.position_of(index);
    if (sizes.y == 1 && sizes.z == 1) return std::to_string(index);
    return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
  };
  return "thread " + at(thread, threads) + " of block " + at(block, blocks);
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

void Block::prepare(unsigned index, bool goes_on) {
  const Sizes threads = launch_->threads, blocks = launch_->blocks;
  const auto count = static_cast<unsigned>(threads.count());
  here_ = launch_->here();
  *here_.block = blocks.position_of(index);
  *here_.threads = threads;
  *here_.blocks = blocks;
  arrived_ = counted_ = 0;
  at_grid_ = false;
  rested_ = {};
  if (!goes_on) {
    if (threads_.size() != count || threads_.back().position.x != threads.x - 1 || threads_.back().position.y != threads.y - 1) {
      threads_.assign(count, Thread());
      for (unsigned i = 0; i < count; i++) threads_[i].position = threads.position_of(i);
    }
    warps_.resize((count + 31) / 32);
    for (Warp &warp : warps_) warp.unread = warp.waiting = warp.ended = warp.looking = 0;
    if (count % 32 > 0) warps_.back().ended = ~0u << count % 32;
    ended_ = begun_ = 0;
    for (unsigned i = 0; i < 16; i++) {
      const unsigned here = count > i * 64 ? count - i * 64 : 0;
      all_[i] = ready_[i] = here >= 64 ? ~uint64_t{0} : (uint64_t{1} << here) - 1;
    }
  } else {
    for (Thread &thread : threads_) {
      if (state_of(thread) == State::at_barrier) set_ready(number_of(thread));
    }
  }
  if (!memory_) return;
  memory_->begin_block(index, count, {shared_.get(), arena_bytes}, {fibers_.begin(), fibers_.end()}, goes_on);
  memory_->declare_shared(dynamic_shared(), launch_->dynamic_shared, "the dynamic array");
  for (const Declaration &each : declarations_) memory_->declare_shared(each.memory, each.bytes, each.names);
}

bool Block::run(const gpt2_emulator::Launch &launch, uint64_t id, Memory *memory, int64_t index, bool goes_on) {
  launch_ = &launch;
  memory_ = memory;
  if (id != id_) {
    // Shared arrays have the same addresses in all blocks of a launch.
    declarations_.clear();
    shared_used_ = launch_->dynamic_shared + gap;
    id_ = id;
  }
  prepare(static_cast<unsigned>(index), goes_on);
  has_failed_ = false;
  current_ = nullptr;
  if (go_on(false)) {
    own_block = this;
    fibers_.enter(current_->fiber);
    own_block = nullptr;
  }
  if (!has_failed_) {
    has_failed_ = ended_ < threads_.size() && !at_grid_;
    if (has_failed_) explain_stuck();
    if (memory_) memory_->report_unwritten();
  }
  if (has_failed_) fibers_.forget();
  return !has_failed_;
}

// Marks `count` threads from `first` on as ended. Warp operations that wait for them now wait for the remaining lanes only.
void Block::end(unsigned first, unsigned count) {
  ended_ += count;
  for (unsigned number = first, stop = first + count; number < stop; number = (number / 32 + 1) * 32) {
    const unsigned lanes = std::min(stop, (number / 32 + 1) * 32) - number, bits = ~0u >> (32 - lanes) << number % 32;
    Warp &warp = warps_[number / 32];
    warp.ended |= bits;
    // The running thread's ready bit stays set, because complete_warp may let other threads run.
    if (number != number_of(*current_)) ready_[number / 64] &= ~(uint64_t{bits} << number / 32 % 2 * 32);
    for (unsigned left = warp.waiting; left > 0; left &= left - 1) {
      complete_warp(number / 32 * 32, threads_[number / 32 * 32 + static_cast<unsigned>(__builtin_ctz(left))].mask);
    }
  }
}

// Without checks, a fiber runs several CUDA threads in a loop. Ends the complete threads; the thread that runs becomes current.
void Block::end_looped() {
  const unsigned first = number_of(*current_), count = looped_ - *here_.fresh;
  threads_[first + count].begin(current_->fiber);
  current_ = &threads_[first + count];
  begun_ += count;
  looped_ = *here_.fresh;
  end(first, count);
}

void Block::fiber_main() {
  for (;;) {
    Block &block = *own_block;
    block.launch_->body(block.launch_->data);
    block.step(0);
    const unsigned number = block.number_of(*block.current_);
    block.end(number, 1);
    block.ready_[number / 64] &= ~(uint64_t{1} << number % 64);
    Fiber *fiber = block.current_->fiber;
    if (!block.go_on(true)) {
      block.fibers_.give(fiber);
      block.fibers_.leave(fiber);
    } else if (block.current_->fiber != fiber) {
      Fibers::change(fiber, block.current_->fiber);
    }
  }
}

void Block::full_stack(const void *caller) {
  fail({Defect::Kind::bad_access,
        "fills its stack of " + std::to_string(Fibers::usable_bytes >> 10) +
            " KiB: look for a function that calls itself without end, or for large local arrays",
        caller});
}

void Block::signal(int signal, const void *address, const void *caller) {
  if (*here_.fresh != looped_) end_looped();
  if (fibers_.is_guard(current_->fiber, address)) full_stack(caller);
  if (signal == SIGFPE) stuck("divides an integer by 0, or the smallest integer by -1", caller);
  if (signal == SIGILL || signal == SIGTRAP) stuck("reaches an instruction that traps", caller);
  char text[64];
  std::snprintf(text, sizeof text, "accesses memory that does not exist, at %p", address);
  fail({Defect::Kind::bad_access, text, caller});
}

void *Block::allocate(size_t bytes) {
  step(0);
  return memory_ ? memory_->allocate(bytes) : std::malloc(bytes);
}

void Block::release(void *memory, const void *caller) {
  step(0);
  if (!memory_) return std::free(memory);
  if (!memory || memory_->release(reinterpret_cast<uintptr_t>(memory))) return;
  fail({Defect::Kind::bad_access, "frees an address that malloc did not return, or that is free", caller});
}

void Block::fail(const Defect &defect) {
  if (*here_.fresh != looped_) end_looped();
  failure = defect;
  failure.text = name_of(*current_) + " " + defect.text;
  // The cause may be an earlier read of shared memory that nobody had written: report this read, too.
  if (memory_) memory_->report_unwritten();
  has_failed_ = true;
  fibers_.abandon();
}

std::string Block::name_of(const Thread &thread) const {
  const Sizes at = *here_.block, blocks = launch_->blocks;
  return emulator::name_of(number_of(thread), (at.z * blocks.y + at.y) * blocks.x + at.x, launch_->threads, blocks);
}

void *Block::shared(const void *declaration, size_t bytes, size_t alignment, const char *names, const void *caller) {
  for (const Declaration &each : declarations_) {
    if (each.key == declaration) return each.memory;
  }
  const size_t first = (shared_used_ + alignment - 1) / alignment * alignment;
  const size_t declared = first + bytes - launch_->dynamic_shared - gap * (declarations_.size() + 1);
  const std::string what = "declares " + std::string(names) + " (shared memory)";
  if (declared > static_shared_bytes) {
    fail({Defect::Kind::stuck,
          what + ": a block's declared arrays have " + std::to_string(declared) + " bytes with it; the most is " +
              std::to_string(static_shared_bytes) + ", more needs extern __shared__ memory",
          caller});
  }
  if (declared + launch_->dynamic_shared > shared_limit || first + bytes > arena_bytes) {
    fail({Defect::Kind::stuck,
          what + ": " + std::to_string(declared) + " bytes of declared arrays and the launch's " +
              std::to_string(launch_->dynamic_shared) + " of dynamic shared memory are more than a block's " +
              std::to_string(shared_limit),
          caller});
  }
  shared_used_ = first + bytes + gap;
  declarations_.push_back({declaration, shared_.get() + first, bytes, names});
  if (memory_) memory_->declare_shared(shared_.get() + first, bytes, names);
  return declarations_.back().memory;
}

void Block::enter(const void *caller) {
  if (Fibers::room(current_->fiber, __builtin_frame_address(0)) < stack_reserve) full_stack(caller);
}

void Block::atomic(const void *memory, size_t bytes, const void *caller) {
  step(most_accesses / most_spins, caller);
  if (!memory_) return;
  check(memory, bytes, true, true, caller);
  memory_->atomic(number_of(*current_));
}

void Block::copy(void *to, const void *from, size_t bytes, size_t zeros, const void *caller) {
  zeros = std::min(zeros, bytes);
  if (memory_) {
    if (bytes > zeros) access(from, bytes - zeros, false, caller);
    access(to, bytes, true, caller);
    memory_->begin_copy(reinterpret_cast<uintptr_t>(to), bytes, number_of(*current_), caller);
  }
  std::memcpy(to, from, bytes - zeros);
  std::memset(static_cast<char *>(to) + bytes - zeros, 0, zeros);
}

}  // namespace gpt2::emulator

namespace gpt2_emulator {

using gpt2::emulator::Block;
using gpt2::emulator::Defect;
using gpt2::emulator::own_block;

// Makes a function from a method of Block. The function calls the method on the block that the OS thread runs.
template <auto METHOD>
struct OfBlock;
template <class R, class... A, R (Block::*METHOD)(A...)>
struct OfBlock<METHOD> {
  static R call(A... arguments) { return (own_block->*METHOD)(arguments...); }
};

const Host program_host = {
    OfBlock<&Block::shared>::call, OfBlock<&Block::dynamic_shared>::call, OfBlock<&Block::barrier>::call,
    OfBlock<&Block::exchange>::call, OfBlock<&Block::undefined>::call, OfBlock<&Block::active>::call,
    OfBlock<&Block::atomic>::call, OfBlock<&Block::fence>::call, OfBlock<&Block::copy>::call,
    OfBlock<&Block::commit>::call, OfBlock<&Block::wait_for_copies>::call,
    [](const void *memory, size_t bytes, bool is_write, const void *caller) {
      if (Block *block = own_block) block->access(memory, bytes, is_write, caller);
      else gpt2::emulator::access_by_host(memory, is_write ? "writes" : "reads", caller);
    },
    [](const void *caller) {
      if (Block *block = own_block) block->enter(caller);
    },
    [] { return own_block != nullptr; },
    OfBlock<&Block::allocate>::call,
    [](void *memory, const void *caller) {
      if (!own_block) return gpt2::emulator::release_by_host(memory, caller);
      own_block->release(memory, caller);
      return true;
    },
    [](const char *text, const char *file, unsigned line, const void *caller, Outcome outcome) {
      own_block->fail({outcome, text, caller, nullptr, Defect::Barrier::unknown, file ? file : "", line});
    },
    OfBlock<&Block::grid_barrier>::call,
    [] { gpt2::emulator::has_effect = true; },
};

}  // namespace gpt2_emulator
