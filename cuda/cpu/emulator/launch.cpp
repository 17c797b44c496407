#include "launch.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "block.h"
#include "repeats.h"

namespace gpt2::emulator {

using gpt2_emulator::Checks;
using gpt2_emulator::Kind;
using gpt2_emulator::Launch;
using gpt2_emulator::Outcome;

std::atomic<bool> has_effect{false};

// Table of pairs between two linker symbols: a function compiled with checks, then its twin without (src/ops/kernels/twins.ts).
extern "C" const gpt2_emulator::Function __start_gpt2_twins[] __attribute__((weak, visibility("hidden"))), __stop_gpt2_twins[] __attribute__((weak, visibility("hidden")));

namespace {

// Once a kernel's accesses exceed settings.all_checked, one block in this many is checked: checks make a block 20 to 40 times slower. The
// choice depends on counts, not on time, so every run checks the same blocks.
constexpr uint64_t sample_of = 128;

struct Launches {
  std::mutex mutex;  // held while a launch with checks runs
  std::map<std::string, Counts> counts;
};

Launches &launches() { return only<Launches>(); }

// Runs the blocks of one launch, some of them checked.
class Blocks {
 public:
  Blocks(const Job &job, Counts &counts, uint64_t id)
      : job_(job), launch_(with_body(job.launch, true)), plain_(with_body(job.launch, false)), counts_(counts), id_(id),
        count_(static_cast<int64_t>(launch_.blocks.count())) {
    for (const Place &each : job.tensors) {
      gpt2_emulator::insert(reinterpret_cast<void *>(each.begin), each.bytes, Kind::tensor, each.element_bytes, each.name.c_str());
    }
  }
  ~Blocks() {
    for (const Place &each : job_.tensors) gpt2_emulator::erase(reinterpret_cast<void *>(each.begin));
  }
  Blocks(const Blocks &) = delete;
  Blocks &operator=(const Blocks &) = delete;

  void run() {
    if (launch_.is_cooperative) return together();
    if (!launch_.has_checks || job_.checks == Checks::none) return blocks(0, count_, false);
    for (int64_t index = 0; index < count_ && !has_failed_;) {
      const bool is_first_checked = is_checked(index);
      is_sample_ &= !is_first_checked;
      int64_t end = index + is_first_checked;
      // While block `index` is checked, the unchecked blocks up to the next sample run, in order, because a block may wait for an
      // earlier block. Block 0, if it is checked, runs alone: its error is reported before unchecked blocks make the same error.
      const bool is_followed = !is_first_checked || (index > 0 && end < count_ - 1 && !are_all_checked());
      if (is_followed) end = std::min(end + gap(), std::max(count_ - 1, end + 1));
      blocks(index, end, is_first_checked);
      index = end;
    }
  }

  bool has_failed() const { return has_failed_; }
  Defects defects;

 private:
  static Launch with_body(Launch launch, bool has_checks) {
    launch.body = reinterpret_cast<decltype(launch.body)>(gpt2_emulator::twin_of(reinterpret_cast<gpt2_emulator::Function>(launch.body), has_checks));
    return launch;
  }
  bool are_all_checked() const {
    return job_.checks == Checks::all || counts_.accesses < gpt2_emulator::settings.all_checked;
  }

  bool is_checked(int64_t index) {
    if (are_all_checked()) return true;
    // Always sample the first and last block of a large launch: kernels often fail at the ends of arrays.
    const bool is_end = index == 0 || index == count_ - 1, is_due = counts_.samples * sample_of <= counts_.blocks - counts_.checked;
    if (is_end ? !is_due && uint64_t(count_) < 2 * sample_of : !is_due || !is_sample_) return false;
    counts_.samples++;
    return true;
  }

  // The number of unchecked blocks until the next checked one, pseudo-random, at most 256.
  int64_t gap() {
    is_sample_ = true;
    counts_.draw = counts_.draw * 6364136223846793005u + 1442695040888963407u;
    return 1 + static_cast<int64_t>((counts_.draw >> 32) % std::min<uint64_t>(static_cast<uint64_t>(count_), 2 * sample_of));
  }

  Memory &begin_checks() {
    Memory &memory = emulator::memory();
    if (!has_begun_) memory.begin_launch(launch_, *job_.heap, defects);
    has_begun_ = true;
    *launch_.watch = {0, ~uintptr_t{0}};
    return memory;
  }

  // Runs blocks `first` to `end` - 1 on all OS threads. Only block `first` may be checked.
  void blocks(int64_t first, int64_t end, bool is_first_checked) {
    if (first + is_first_checked < end) end_checks();
    Memory *memory = is_first_checked ? &begin_checks() : nullptr;
    const uint64_t before = memory ? memory->accesses : 0;
    std::mutex mutex;
    std::atomic<bool> stops{false};
    job_.pool->each_free(end - first, [&](int64_t index, int) {
      if (stops.load(std::memory_order_relaxed)) return;
      Block &block = block_of_thread();
      const bool is_checked = memory && index == 0;
      if (block.run(is_checked ? launch_ : plain_, id_, is_checked ? memory : nullptr, first + index)) return;
      const std::lock_guard<std::mutex> lock(mutex);
      stops = true;
      if (!has_failed_) fail(block.failure);
    });
    count(is_first_checked, memory, before);
    count(static_cast<uint64_t>(end - first) - is_first_checked, nullptr, 0);
  }

  // Runs all blocks of a cooperative launch on one OS thread: each block runs to the next grid barrier before any block continues.
  void together() {
    const bool checks = launch_.has_checks && job_.checks != Checks::none && are_all_checked();
    Memory *memory = checks ? &begin_checks() : nullptr;
    if (!checks) end_checks();
    const uint64_t before = memory ? memory->accesses : 0;
    size_t waiting = static_cast<size_t>(count_);
    for (bool goes_on = false; waiting > 0 && !has_failed_; goes_on = true) {
      waiting = 0;
      for (int64_t index = 0; index < count_ && !has_failed_; index++) {
        Block &block = block_of_thread(static_cast<size_t>(index));
        if (!block.run(memory ? launch_ : plain_, id_, memory, index, goes_on)) fail(block.failure);
        waiting += block.waits_for_grid();
      }
      if (!has_failed_ && waiting > 0 && waiting < static_cast<size_t>(count_)) {
        fail({Defect::Kind::stuck, std::to_string(waiting) + " of " + std::to_string(count_) +
                                       " blocks wait at a barrier of the grid that the others do not reach"});
      }
      if (memory) memory->order_all();
    }
    count(static_cast<uint64_t>(count_), memory, before);
  }

  // Adds `blocks` finished blocks to the kernel's counts. If `memory` checked them, also adds the accesses that it counted after `before`.
  void count(uint64_t blocks, const Memory *memory, uint64_t before) {
    *launch_.watch = {0, 0};
    counts_.blocks += blocks;
    if (!memory) return;
    counts_.accesses += memory->accesses - before;
    counts_.checked += blocks;
    counts_.checked_threads += blocks * launch_.threads.count();
  }

  void fail(const Defect &defect) {
    defects.all.push_back(defect);
    has_failed_ = true;
  }

  // Unchecked blocks may write all memory that the arguments point to or that other blocks accessed: mark it as written.
  void end_checks() {
    *launch_.watch = {0, 0};
    if (!launch_.has_checks || std::exchange(is_marked_, true)) return;
    const LockedTable all;
    const auto mark = [&](uintptr_t address) {
      if (Region *region = all->at(address)) region->is_written = true;
    };
    uintptr_t word;
    for (size_t at = 0; at + sizeof word <= launch_.argument_bytes; at += sizeof word) {
      std::memcpy(&word, static_cast<const char *>(launch_.arguments) + at, sizeof word);
      mark(word);
    }
    if (!has_begun_) return;
    for (const uintptr_t each : memory().touched()) mark(each);
    memory().forget_sites();
  }

  const Job &job_;
  const Launch launch_, plain_;
  Counts &counts_;
  const uint64_t id_;
  const int64_t count_;
  bool has_begun_ = false, is_marked_ = false, is_sample_ = true, has_failed_ = false;
};

}  // namespace

const std::map<std::string, Counts> &counts() { return launches().counts; }

Done run(const Job &job) {
  Launches &all = launches();
  std::unique_lock<std::mutex> lock(all.mutex, std::defer_lock);
  if (job.launch.has_checks) lock.lock();
  Counts alone;
  Counts &counts = job.launch.has_checks ? all.counts[job.launch.kernel] : alone;
  counts.launches++;
  Done done;
  const double threads = double(job.launch.blocks.count()) * double(job.launch.threads.count());
  Repeat repeat(job.launch, *job.pool, !job.can_be_left_out, threads, threads * double(counts.accesses) / double(std::max<uint64_t>(counts.checked_threads, 1)));
  if (repeat.restore()) {
    counts.left_out++;
    return done;
  }
  const gpt2_emulator::OpenMemory open{static_cast<uint64_t>(threads)};
  has_effect = false;
  static std::atomic<uint64_t> ids{0};
  Blocks all_blocks(job, counts, ++ids);
  all_blocks.run();
  table().launches++;
  done.defects = std::move(all_blocks.defects.all);
  if (all_blocks.has_failed()) done.outcome = done.defects.back().kind;
  repeat.record(!has_effect && !all_blocks.has_failed());
  return done;
}

}  // namespace gpt2::emulator

gpt2_emulator::Function gpt2_emulator::twin_of(Function function, bool has_checks) {
  for (const Function *each = gpt2::emulator::__start_gpt2_twins; each < gpt2::emulator::__stop_gpt2_twins; each += 2) {
    if (each[0] == function || each[1] == function) return each[!has_checks];
  }
  return function;
}
