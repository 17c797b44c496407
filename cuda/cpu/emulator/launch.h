// Runs launches: chooses the blocks that are checked, and returns the defects found.
#pragma once

#include <string>
#include <vector>

#include "../../emulator/interface.h"
#include "../../runtime/threads.h"
#include "memory.h"
#include "reports.h"

namespace gpt2::emulator {

struct Job {
  gpt2_emulator::Launch launch;
  gpt2_emulator::Checks checks = gpt2_emulator::Checks::all;
  // Tensors that the launch may access. The table of memory has them until the launch ends.
  std::vector<Place> tensors;
  Heap *heap = nullptr;
  ThreadPool *pool = nullptr;
  // True if only the emulator's kernels and API calls change device memory: a repeated launch can then be skipped.
  bool can_be_left_out = false;
};

struct Done {
  gpt2_emulator::Outcome outcome = gpt2_emulator::Outcome::ok;
  // Defects and warnings. If the launch failed, the last is the defect that ended it.
  std::vector<Defect> defects;
};

Done run(const Job &job);

// Counts over all launches of a kernel; `counts` has them by the kernel's name.
struct Counts {
  uint64_t launches = 0, left_out = 0, blocks = 0, checked = 0, checked_threads = 0, samples = 0, accesses = 0, draw = 1;
};
const std::map<std::string, Counts> &counts();

}  // namespace gpt2::emulator
