// Barriers and warp operations, where the threads of a block wait for each other.
#include "block.h"

namespace gpt2::emulator {

unsigned Block::barrier(int predicate, const void *caller) {
  step(0);
  Thread &thread = *current_;
  thread.caller = caller;
  thread.predicate = predicate;
  if (++arrived_ < threads_.size()) {
    wait(State::at_barrier);
    return predicates_;
  }
  if (launch_->memory) {
    if (has_unwritten()) fail_as_it_is();
    for (const Thread &each : threads_) {
      if (each.caller == caller || launch_->is_same_line(each.caller, caller)) continue;
      fail("waits at another barrier than " + name_of(each), caller, each.caller);
    }
  }
  predicates_ = 0;
  for (Thread &each : threads_) {
    predicates_ += each.predicate != 0;
    if (&each != &thread) each.state = State::ready;
  }
  arrived_ = 0;
  if (launch_->memory) launch_->memory->barrier();
  return predicates_;
}

// Completes the operation of the lanes that named this mask, if each of them has arrived or ended.
void Block::complete_warp(unsigned first, unsigned mask) {
  Warp &warp = warps_[first / 32];
  unsigned there = 0, wanted = 0;
  for (unsigned lane = 0; lane < 32 && first + lane < threads_.size(); lane++) {
    const Thread &each = threads_[first + lane];
    if (!(mask >> lane & 1) || each.state == State::ended) continue;
    wanted |= 1u << lane;
    if (each.state == State::in_warp && each.mask == mask) there |= 1u << lane;
  }
  if (wanted == 0 || there != wanted) return;
  if (warp.unread & ~there) {
    // Other lanes still read the results of an operation that they had with these.
    const State state = current_->state;
    let_others_run();
    current_->state = state;
    complete_warp(first, mask);
    return;
  }
  warp.unread |= there;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(there >> lane & 1)) continue;
    warp.results[lane] = threads_[first + lane].value;
    threads_[first + lane].lanes = there;
    threads_[first + lane].state = State::ready;
  }
  if (launch_->memory && threads_[first + static_cast<unsigned>(__builtin_ctz(there))].predicate) {
    launch_->memory->order_warp(first, there);
  }
}

const uint64_t *Block::exchange(unsigned mask, uint64_t value, bool orders_memory, unsigned *lanes, const void *caller) {
  step(0);
  Thread &thread = *current_;
  const unsigned number = number_of(thread), first = number / 32 * 32;
  if (!(mask >> number % 32 & 1)) fail("is not in the mask that it names for its warp", caller);
  for (unsigned lane = 0; launch_->memory && !orders_memory && lane < 32 && first + lane < threads_.size(); lane++) {
    const Thread &each = threads_[first + lane];
    if (each.state != State::in_warp || each.mask != mask || each.predicate) continue;
    if (each.caller == caller || launch_->is_same_line(each.caller, caller)) continue;
    fail("takes part in another operation of its warp than " + name_of(each), caller, each.caller);
  }
  thread.caller = caller;
  thread.mask = mask;
  thread.value = value;
  thread.predicate = orders_memory;
  thread.state = State::in_warp;
  complete_warp(first, mask);
  if (thread.state == State::in_warp) wait(State::in_warp);
  warps_[first / 32].unread &= ~(1u << number % 32);
  if (lanes) *lanes = thread.lanes;
  return warps_[first / 32].results;
}

// Reports a block in which no thread can go on.
void Block::explain_stuck() {
  const Thread *waits = nullptr, *other = nullptr;
  for (const Thread &thread : threads_) {
    if (thread.state == State::at_barrier || thread.state == State::in_warp) {
      if (!waits) waits = &thread;
    }
  }
  for (const Thread &thread : threads_) {
    if (!other && (thread.state != waits->state || thread.caller != waits->caller)) other = &thread;
  }
  std::string text = name_of(*waits);
  if (waits->state == State::at_barrier) {
    text += " waits at a barrier that " + (other ? name_of(*other) : "another thread") + " does not reach";
  } else {
    text += " waits for lanes in its mask that do not arrive, such as " + (other ? name_of(*other) : "another lane");
  }
  if (other && other->state == State::ended) text += ", because it has ended";
  if (other && other->state != State::ended) text += ", because it waits elsewhere";
  failure = {text, waits->caller, other && other->state != State::ended ? other->caller : nullptr, "", 0};
}

}  // namespace gpt2::emulator
