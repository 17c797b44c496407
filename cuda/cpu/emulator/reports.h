// Defects that the emulator finds, and their source lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "table.h"

namespace gpt2::emulator {

struct Defect {
  using Kind = gpt2_emulator::Outcome;
  Kind kind = Kind::race;
  std::string text{};
  // Code addresses after the access or operation, and after the access of a second thread, or NULL.
  const void *caller = nullptr, *other = nullptr;
  // For a race in shared memory: the access after which a __syncthreads is missing. after_earlier: the access whose line is first.
  enum class Barrier : uint8_t { unknown, after_this, after_other, after_earlier };
  Barrier barrier = Barrier::unknown;
  // The source line, if a compiler's check named it; else it follows from `caller`.
  std::string file{};
  unsigned line = 0;
  uint64_t count = 1;
};

// A set of defects, each with a count: defects of the same kind at the same places count as one.
class Defects {
 public:
  // Counts a known defect once more. False: the defect is new, and must be added with its text.
  bool count(Defect::Kind kind, const void *caller, const void *other = nullptr);
  // Returns whether the defect is new.
  bool add(Defect defect);
  std::vector<Defect> all;

 private:
  std::map<std::tuple<Defect::Kind, const void *, const void *>, size_t> known_;
};

// "file:line" of the call before a code address, from debug information; empty without debug information. Cached until
// `forget_lines`, which is called when a file is unloaded.
std::string line_of(const void *caller);
void forget_lines();
// "file:line" of a defect, or empty.
std::string place_of(const Defect &defect);
// "kernel: thread 3 of block 0 reads … at file:line", and the text of the line.
std::string message(const std::string &kernel, const Defect &defect);
// A region's name, and where it was allocated.
std::string described(const Region &region);
}  // namespace gpt2::emulator
