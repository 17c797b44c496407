// Barriers and warp operations, where the threads of a block wait for each other.
#include "block.h"

#include <execinfo.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace gpt2::emulator {

// Makes the next ready thread, round robin, the current one. A thread that has not begun gets a fiber: the current thread's fiber if
// `has_ended`, else an unused one. Returns false if no thread is ready.
bool Block::go_on(bool has_ended) {
  const unsigned number = current_ ? number_of(*current_) + 1 : 0;
  unsigned word = number / 64 % 16;
  uint64_t bits = ready_[word] & (~uint64_t{0} << number % 64);
  for (int i = 0; bits == 0; i++) {
    if (i == 16) return false;
    word = (word + 1) % 16;
    bits = ready_[word];
  }
  Thread &next = threads_[word * 64 + static_cast<unsigned>(__builtin_ctzll(bits))];
  Fiber *free = has_ended ? current_->fiber : nullptr;
  current_ = &next;
  *here_.thread = next.position;
  next.spins = 0;
  if (memory_) {
    memory_->resume(number_of(next));
    memory_->accesses_to_rest = memory_->accesses + most_accesses;
  }
  looped_ = 0;
  if (number_of(next) >= begun_) {
    begun_ = number_of(next) + 1;
    next.begin(free ? free : fibers_.take());
    // Without checks, this fiber may run all threads that have not begun, in a loop: threads begin in the order of their numbers.
    if (!memory_) looped_ = static_cast<unsigned>(threads_.size()) - begun_;
  } else if (free) {
    fibers_.give(free);
  }
  *here_.fresh = looped_;
  // Prefetch the stack of a thread that runs soon: the CPU caches do not hold the stacks of hundreds of threads.
  const Thread &soon = threads_[std::min<size_t>(number_of(next) + 4, threads_.size() - 1)];
  for (int line = 0; soon.fiber && line < 4; line++) __builtin_prefetch(static_cast<const char *>(soon.fiber->place) + line * 64);
  return true;
}

void Block::wait(State state) {
  Thread &thread = *current_;
  thread.state = state;
  const unsigned number = number_of(thread);
  if (state != State::ready) ready_[number / 64] &= ~(uint64_t{1} << number % 64);
  Fiber *fiber = thread.fiber;
  if (!go_on(false)) fibers_.leave(fiber);
  else if (current_->fiber != fiber) Fibers::change(fiber, current_->fiber);
  thread.state = State::ready;
}

void Block::let_others_run(const void *caller) {
  current_->spins = 0;
  static std::atomic<bool> is_told{false};
  const auto now = std::chrono::steady_clock::now();
  if (rested_.time_since_epoch().count() == 0) rested_ = now;
  if (caller && now - rested_ > std::chrono::seconds(3) && !is_told.exchange(true)) {
    const std::string text = name_of(*current_) + " still runs after 3 s (a block that waits for a later block never ends)";
    std::fprintf(stderr, "notice: %s\n", message(launch_->kernel, {Defect::Kind::warning, text, caller}).c_str());
  }
  wait(State::ready);
}

// Fails the launch if `other` waits at another source line. Not inlined: fibers switch faster if frames below the switch are small.
__attribute__((noinline)) void Block::check_place(const Thread &other, const char *does, const void *caller) {
  if (other.caller != caller && line_of(other.caller) != line_of(caller)) fail({Defect::Kind::stuck, does + name_of(other), caller, other.caller});
}

unsigned Block::barrier(int predicate, const void *caller) {
  step(0);
  Thread &thread = *current_;
  thread.caller = caller;
  counted_ += predicate != 0;
  if (++arrived_ < threads_.size()) {
    wait(State::at_barrier);
    return predicates_;
  }
  if (memory_) {
    memory_->report_unwritten();
    for (const Thread &each : threads_) check_place(each, "waits at another barrier than ", caller);
  }
  predicates_ = std::exchange(counted_, 0);
  std::copy(all_, all_ + 16, ready_);
  arrived_ = 0;
  if (memory_) {
    memory_->barrier();
    memory_->resume(number_of(thread));
  }
  return predicates_;
}

// A barrier of the grid. When all threads of the block are here, the block stops; the launch continues it when all blocks have stopped.
void Block::grid_barrier(const void *caller) {
  step(0);
  if (!launch_->is_cooperative) stuck("waits for the whole grid, but the launch is not cooperative: launch it by cudaLaunchCooperativeKernel", caller);
  current_->caller = caller;
  if (++arrived_ == threads_.size()) at_grid_ = true;
  wait(State::at_barrier);
}

// Completes the warp operation of the lanes in `mask` if each has arrived with this mask or has ended. `first`: the thread of lane 0.
void Block::complete_warp(unsigned first, unsigned mask) {
  Warp &warp = warps_[first / 32];
  const unsigned there = mask & ~warp.ended;
  if (there == 0 || (there & ~warp.waiting)) return;
  for (unsigned left = there; left > 0; left &= left - 1) {
    if (threads_[first + static_cast<unsigned>(__builtin_ctz(left))].mask != mask) return;
  }
  if (warp.unread & ~there) {
    // Other lanes have not yet read the results of an earlier operation, which this operation would overwrite: let them run first.
    const unsigned mine = warp.waiting & 1u << number_of(*current_) % 32;
    warp.waiting &= ~mine;
    let_others_run();
    warp.waiting |= mine;
    complete_warp(first, mask);
    return;
  }
  warp.unread |= there;
  warp.waiting &= ~there;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(there >> lane & 1)) continue;
    warp.results[lane] = threads_[first + lane].value;
    threads_[first + lane].lanes = there;
    set_ready(first + lane);
  }
  if (memory_ && threads_[first + static_cast<unsigned>(__builtin_ctz(there))].predicate) memory_->order_warp(first, there);
}

const uint64_t *Block::exchange(unsigned mask, uint64_t value, bool orders_memory, unsigned *lanes, const void *caller) {
  step(0);
  Thread &thread = *current_;
  const unsigned number = number_of(thread), first = number / 32 * 32;
  Warp &warp = warps_[first / 32];
  if (!(mask >> number % 32 & 1)) stuck("is not in the mask that it names for its warp", caller);
  for (unsigned left = memory_ && !orders_memory ? warp.waiting : 0; left > 0; left &= left - 1) {
    const Thread &each = threads_[first + static_cast<unsigned>(__builtin_ctz(left))];
    if (each.mask == mask && !each.predicate) check_place(each, "takes part in another operation of its warp than ", caller);
  }
  thread.caller = caller;
  thread.mask = mask;
  thread.value = value;
  thread.predicate = orders_memory;
  warp.waiting |= 1u << number % 32;
  complete_warp(first, mask);
  if (warp.waiting >> number % 32 & 1) wait(State::in_warp);
  else if (memory_ && orders_memory) memory_->resume(number);
  warp.unread &= ~(1u << number % 32);
  if (lanes) *lanes = thread.lanes;
  return warp.results;
}

void Block::undefined(unsigned lane, const void *caller) {
  if (!memory_) return;
  const unsigned number = number_of(*current_);
  // Only a warning if the block has no such lane: reductions in a block of fewer than 32 threads often ignore the value.
  const bool is_there = number / 32 * 32 + lane < threads_.size();
  memory_->add({is_there ? Defect::Kind::unwritten : Defect::Kind::warning,
                name_of(*current_) + " reads the value of lane " + std::to_string(lane) + ", which " +
                    (is_there ? "has ended and left it undefined" : "its block does not have: right only if unused"),
                caller});
}

// Returns the lanes that called __activemask from the same call stack, once every lane of the warp that can run has called it. The address
// of the call does not identify a branch: two branches may call one function that calls __activemask.
unsigned Block::active() {
  step(0);
  Thread &thread = *current_;
  const unsigned number = number_of(thread), first = number / 32 * 32, lane = 1u << number % 32;
  Warp &warp = warps_[first / 32];
  void *calls[64];
  thread.value = 0;
  for (int left = backtrace(calls, 64); left > 0; left--) {
    thread.value = thread.value * 31 + reinterpret_cast<uintptr_t>(calls[left - 1]);
  }
  warp.looking |= lane;
  for (int looks = 0; warp.looking & lane; looks++) {
    if (static_cast<unsigned>(ready_[first / 64] >> first % 64) & ~warp.looking && looks < most_looks) {
      let_others_run();
      continue;
    }
    unsigned found = 0;
    for (unsigned left = warp.looking; left > 0; left &= left - 1) {
      if (threads_[first + static_cast<unsigned>(__builtin_ctz(left))].value == thread.value) found |= left & -left;
    }
    warp.looking &= ~found;
    for (unsigned left = found; left > 0; left &= left - 1) {
      threads_[first + static_cast<unsigned>(__builtin_ctz(left))].lanes = found;
    }
  }
  return thread.lanes;
}

// Stores in `failure` why no thread of the block can continue.
void Block::explain_stuck() {
  const auto find = [&](const auto &is_wanted) {
    const auto found = std::find_if(threads_.begin(), threads_.end(), is_wanted);
    return found == threads_.end() ? nullptr : &*found;
  };
  const Thread *waits = find([&](const Thread &each) { return state_of(each) == State::at_barrier || state_of(each) == State::in_warp; });
  const Thread *other = find([&](const Thread &each) { return state_of(each) != waits->state || each.caller != waits->caller; });
  const bool is_barrier = waits->state == State::at_barrier, has_ended = other && state_of(*other) == State::ended;
  const std::string who = other ? name_of(*other) : is_barrier ? "another thread" : "another lane";
  failure = {Defect::Kind::stuck,
             name_of(*waits) + (is_barrier ? " waits at a barrier that " + who + " does not reach"
                                           : " waits for lanes in its mask that do not arrive, such as " + who) +
                 (has_ended ? ", because it has ended" : other ? ", because it waits elsewhere" : ""),
             waits->caller, other && !has_ended ? other->caller : nullptr};
}

}  // namespace gpt2::emulator
