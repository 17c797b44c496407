// Skips repeated launches: if arguments and memory equal an earlier launch's, copies the bytes that the earlier launch wrote.
#pragma once

#include <vector>

#include "launch.h"

namespace gpt2::emulator {

// The last launch with a certain kernel, grid and arguments. `before`: a hash of the memory that the launch could reach; `changes`: the
// pages that it changed; `can_move`: the record is valid for other allocations, too, because no pointers refer to the memory.
struct Record {
  struct Page {
    size_t region, index;
    uint64_t hash;
    std::vector<char> bytes;
  };
  unsigned seen = 0, next_try = 1;
  bool is_recorded = false, can_move = false;
  uint64_t before = 0;
  std::vector<uintptr_t> regions;
  std::vector<Page> changes;
};

// One launch and its record. A Repeat that has a record holds the lock of all records until its end.
class Repeat {
 public:
  // `threads`: of the whole grid; `accesses`: the expected accesses to memory. `always_runs`: the launch is never skipped.
  Repeat(const gpt2_emulator::Launch &launch, ThreadPool &pool, bool always_runs, double threads, double accesses);
  // Returns true if the launch is skipped: an earlier launch began with equal memory, and the changes of that launch are written. The
  // two launches may use different allocations if no reachable memory holds pointers, and the arguments' offsets are equal.
  bool restore();
  // Called after the launch ran. `is_same`: on equal memory the launch would write the same bytes, and have no other effect.
  void record(bool is_same);

 private:
  std::string key(const gpt2_emulator::Launch &launch);
  bool add_changes();

  ThreadPool &pool_;
  std::unique_lock<std::mutex> lock_;
  Record *record_ = nullptr;
  bool compares_ = false, is_due_ = false, can_move_ = true;
  uint64_t before_ = 0;
  std::vector<uintptr_t> regions_;             // addresses of all regions that the launch can reach; arguments' regions first
  std::vector<std::vector<uint64_t>> hashes_;  // by region: hashes of its pages before the launch
  size_t allocations_ = 0;
};

}  // namespace gpt2::emulator
