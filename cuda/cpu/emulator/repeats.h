// Leaves out launches. One with the arguments and the memory of an earlier launch would change the memory as that one did.
#pragma once

#include <vector>

#include "launch.h"

namespace gpt2::emulator {

// The last launch with the same kernel, sizes and arguments: a hash of the memory that it could reach, and the pages that it changed.
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

// A launch, beside its record. While one lives, others that have records wait.
class Repeat {
 public:
  // With the launch's threads, and its accesses as far as they are known. `always_runs`: the launch is not to be left out.
  Repeat(const gpt2_emulator::Launch &launch, ThreadPool &pool, bool always_runs, double threads, double accesses);
  // If the launch ran before on the same memory: changes the memory as it did then. Other allocations are the same memory if no address
  // is in them, and the same offsets in them are the arguments.
  bool restore();
  // Called after the launch ran. `is_same`: it would do the same on the same memory, and nothing else.
  void record(bool is_same);

 private:
  std::string key(const gpt2_emulator::Launch &launch);
  bool add_changes();

  ThreadPool &pool_;
  std::unique_lock<std::mutex> lock_;
  Record *record_ = nullptr;
  bool compares_ = false, is_due_ = false, can_move_ = true;
  uint64_t before_ = 0;
  std::vector<uintptr_t> regions_;             // that the launch can reach, first those of its arguments
  std::vector<std::vector<uint64_t>> hashes_;  // of the regions' pages before the launch
  size_t allocations_ = 0;
};

}  // namespace gpt2::emulator
