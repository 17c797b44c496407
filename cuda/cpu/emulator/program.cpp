// The functions of the emulator that programs call: launches, reports on standard error, and the summary at the end.
#include <cstdio>

#include "block.h"
#include "launch.h"

namespace gpt2_emulator {

using namespace gpt2::emulator;

Watch program_watch{0, 0};
Settings settings;

namespace {

constexpr size_t most_defects = 20;

struct Program {
  std::mutex mutex;
  // Defects and warnings by kernel; "" stands for host code.
  std::map<std::string, Defects> found;
  size_t defects = 0;
  gpt2::ThreadPool pool{gpt2::processor_count()};
  Heap heap;
};

Program &program() { return only<Program>(); }

// Prints a defect when it is new.
void tell(const std::string &kernel, const Defect &defect) {
  Program &self = program();
  const std::lock_guard<std::mutex> lock(self.mutex);
  if (!self.found[kernel].add(defect)) return;
  const bool is_warning = defect.kind == Defect::Kind::warning;
  if (!is_warning && ++self.defects > most_defects) return;
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", is_warning ? "warning" : "defect", message(kernel, defect).c_str());
}

}  // namespace

void enter_variables() {
  [[maybe_unused]] static const auto entered = gpt2::emulator::enter_variables(reinterpret_cast<const void *>(&enter_variables));
}

// Makes __device__ variables inaccessible to host code. The emulator is linked last, so this runs after the program's constructors, which
// may write to these variables. From then on hooks watch all addresses, because the variables lie outside of the arena of cudaMalloc.
__attribute__((constructor)) static void close_variables() {
  if (variable_pages().empty()) return;
  catch_signals();
  program_watch = {0, ~uintptr_t{0}};
  const OpenMemory closes{0};
}

Outcome run(const Launch &launch) {
  Program &self = program();
  enter_variables();
  Job job;
  job.launch = launch;
  job.checks = settings.checks;
  job.heap = &self.heap;
  job.pool = &self.pool;
  job.can_be_left_out = !settings.every_launch;
  const Watch host = program_watch;
  const Done done = gpt2::emulator::run(job);
  program_watch = host;
  for (const Defect &each : done.defects) tell(launch.kernel, each);
  return done.outcome;
}

void report(const char *text, const void *caller, bool is_warning) {
  tell("", {is_warning ? Defect::Kind::warning : Defect::Kind::race, text, caller});
}

unsigned defects() { return static_cast<unsigned>(program().defects); }

void finish() {
  Program &self = program();
  std::fflush(stdout);
  if (self.defects > 0) {
    std::fprintf(stderr, "%zu defect%s%s\n", self.defects, self.defects == 1 ? "" : "s",
                 self.defects > most_defects ? ", of which 20 are shown" : "");
  }
  for (const bool is_warning : {false, true}) {
    for (const auto &[kernel, found] : self.found) {
      for (const Defect &each : found.all) {
        if ((each.kind == Defect::Kind::warning) != is_warning || each.count == 1) continue;
        std::string places = place_of(each);
        const std::string other = line_of(each.other), name = kernel.empty() ? "host code" : kernel;
        if (!places.empty()) places = " at " + places + (other.empty() || other == places ? "" : " and " + other);
        std::fprintf(stderr, "  %zu times: %s%s\n", size_t{each.count}, name.c_str(), places.c_str());
      }
    }
  }
  for (const auto &[begin, region] : table().live) {
    if (region.heap || (region.is.kind != Kind::device && region.is.kind != Kind::managed && region.is.kind != Kind::pinned)) continue;
    std::fprintf(stderr, "notice: %s is not freed: %zu bytes\n", described(region).c_str(), region.is.bytes);
  }
  if (!settings.counts) return;
  bool is_any_skipped = false;
  for (const auto &[kernel, each] : counts()) {
    is_any_skipped |= each.checked < each.blocks;
    const std::string left_out =
        each.left_out > 0 ? "; " + std::to_string(each.left_out) + " were left out, because they ran before on the same memory" : "";
    std::fprintf(stderr, "%s: %zu of %zu blocks were checked, in %zu launch%s%s\n", kernel.c_str(), size_t{each.checked},
                 size_t{each.blocks}, size_t{each.launches}, each.launches == 1 ? "" : "es", left_out.c_str());
  }
  if (is_any_skipped) std::fputs("what only unchecked blocks do wrong is not reported; every run checks the same blocks, --check all checks each\n", stderr);
  if (!counts().empty()) std::fputs("times are those of an emulator and say nothing about a GPU\n", stderr);
}

}  // namespace gpt2_emulator

namespace gpt2::emulator {

void access_by_host(const void *memory, const char *does, const void *caller) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const bool is_device = closed_to_host(address).bytes > 0;
  // While a block is checked, hooks report every access of other host threads: ignore accesses to memory that host code may use.
  if (is_device) open_memory();
  else if (!open_freed(address)) return;
  Defect defect{Defect::Kind::bad_access, "", caller};
  {
    const std::lock_guard<std::mutex> lock(gpt2_emulator::program().mutex);
    if (gpt2_emulator::program().found[""].count(defect.kind, caller)) return;
  }
  {
    const LockedTable all;
    const Region *region = all->find(address);
    defect.text = std::string("host code ") + does + " " + (region ? described(*region) : is_device ? "device memory" : "memory") +
                  (is_device ? ", which only kernels can access: use cudaMemcpy" : ", which has been freed") +
                  (is_device && !is_in(arena_of(true), address) ? "FromSymbol or cudaMemcpyToSymbol" : "");
  }
  gpt2_emulator::tell("", defect);
}

bool release_by_host(const void *memory, const void *caller) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (!is_in_arena(address)) return false;
  const LockedTable all;
  const Region *region = all->find(address);
  const std::string name = region ? described(*region) : "memory of the CUDA runtime";
  gpt2_emulator::report(("host code frees " + name + " by free or delete: use cudaFree or cudaFreeHost").c_str(), caller);
  return true;
}

}  // namespace gpt2::emulator
