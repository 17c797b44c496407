// Launches: which blocks are checked, and what came of them.
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
  // Tensors that the launch may access, in the table until it ends.
  std::vector<Place> tensors;
  Heap *heap = nullptr;
  ThreadPool *pool = nullptr;
  // Nothing but this emulator and the host's copies changes the memory, so that a launch like an earlier one can be left out.
  bool can_be_left_out = false;
};

struct Done {
  gpt2_emulator::Outcome outcome = gpt2_emulator::Outcome::ok;
  // With warnings; the defect that ended the launch is the last.
  std::vector<Defect> defects;
};

Done run(const Job &job);

// How a kernel's blocks were run, by its name.
struct Counts {
  uint64_t launches = 0, left_out = 0, blocks = 0, checked = 0, checked_threads = 0, samples = 0, accesses = 0, draw = 1;
};
const std::map<std::string, Counts> &counts();

}  // namespace gpt2::emulator
