#include "launch.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>

#include "block.h"

namespace gpt2::emulator {

using gpt2_emulator::Checks;
using gpt2_emulator::Kind;
using gpt2_emulator::Launch;
using gpt2_emulator::Outcome;
using gpt2_emulator::Sizes;

std::atomic<bool> has_effect{false};

using Body = void (*)(const void *);
// Pairs of a launch's body with checks and its twin without (src/ops/kernels/twins.ts), between two symbols of the linker.
extern "C" const Body __start_gpt2_twins[] __attribute__((weak, visibility("hidden"))), __stop_gpt2_twins[] __attribute__((weak, visibility("hidden")));

namespace {

// The body with checks, or its twin, of either; the same body if it has no twin.
Body twin_of(Body body, bool has_checks) {
  for (const Body *each = __start_gpt2_twins; each < __stop_gpt2_twins; each += 2) {
    if (each[0] == body || each[1] == body) return each[!has_checks];
  }
  return body;
}

// Earlier launches that are remembered.
constexpr size_t most_repeats = 10000;

// One of this many blocks of a kernel is checked once the kernel's accesses exceed settings.all_checked. A check makes a block 20 to 40
// times slower, so that on 2 cores the samples take about a quarter of the time. Not by the clock: every run checks the same blocks.
constexpr uint64_t sample_of = 128;

constexpr size_t page = 4096;
// Bytes of changed pages that all records hold.
constexpr size_t most_recorded = size_t{1} << 30;

// An earlier launch with the same kernel, sizes and arguments: a hash of the memory that it could reach, and the pages that it changed.
struct Repeat {
  struct Page {
    uintptr_t region;
    size_t index;
    uint64_t hash;
    std::vector<char> bytes;
  };
  unsigned seen = 0, next_try = 1;
  bool is_recorded = false;
  uint64_t before = 0;
  std::vector<Page> changes;
  std::map<uintptr_t, std::set<uintptr_t>> targets;  // of the changed regions
};

struct Launches {
  std::mutex mutex;  // of launches with checks
  std::map<std::string, Counts> counts;
  std::map<std::string, Repeat> repeats;
  size_t recorded = 0;
};

Launches &launches() {
  static Launches &made = *new Launches;
  return made;
}

uint64_t hash_of(const char *at, size_t bytes) {
  uint64_t lanes[4] = {1, 2, 3, 4};
  const char *end = at + bytes;
  for (; end - at >= 32; at += 32) {
    uint64_t words[4];
    std::memcpy(words, at, sizeof words);
    for (int i = 0; i < 4; i++) lanes[i] = (lanes[i] ^ words[i]) * 0x9e3779b97f4a7c15u + (lanes[i] >> 29);
  }
  for (; at < end; at++) lanes[0] = (lanes[0] ^ static_cast<unsigned char>(*at)) * 0x9e3779b97f4a7c15u;
  return (lanes[0] * 3 + lanes[1]) * 0x9e3779b97f4a7c15u + (lanes[2] * 5 ^ lanes[3]);
}

size_t pages_of(const Region &region) { return (region.is.bytes + page - 1) / page; }
size_t bytes_of_page(const Region &region, size_t index) { return std::min(page, region.is.bytes - index * page); }

// Hashes the pages of a region, and finds what its words may point to. Only a launch and a call of the host, which the emulator sees,
// change device memory.
void examine(Region &region, gpt2::ThreadPool &pool) {
  const bool is_known = region.is.kind == Kind::device || region.is.kind == Kind::constant;
  if (is_known && region.hashed == table().launches) return;
  const auto *at = reinterpret_cast<const char *>(region.is.begin);
  const gpt2_emulator::OpenMemory open(at, region.is.bytes);
  std::mutex mutex;
  const gpt2_emulator::Watch device = arena_of(true), other = arena_of(false);
  region.hashes.resize(pages_of(region));
  region.targets.clear();
  pool.each(static_cast<int64_t>(region.hashes.size()), [&](int64_t index) {
    const char *begin = at + index * page;
    const size_t bytes = bytes_of_page(region, index);
    region.hashes[index] = hash_of(begin, bytes);
    for (size_t i = -region.is.begin % 8; i + 8 <= bytes; i += 8) {
      uintptr_t word;
      std::memcpy(&word, begin + i, sizeof word);
      if (!is_in(device, word) && !is_in(other, word)) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      if (const Region *found = table().at(word)) region.targets.insert(found->is.begin);
    }
  }, 64);
  region.hashed = table().launches;
}

// The allocations to which a launch's arguments may point, and all memory outside of the arenas: variables, and what kernels and the host
// have allocated.
std::set<uintptr_t> roots_of(const Launch &launch) {
  std::set<uintptr_t> found;
  uintptr_t word;
  for (size_t at = 0; at + sizeof word <= launch.argument_bytes; at += sizeof word) {
    std::memcpy(&word, static_cast<const char *>(launch.arguments) + at, sizeof word);
    if (const Region *region = table().at(word)) found.insert(region->is.begin);
  }
  for (const auto &[begin, region] : table().live) {
    if (!is_in(arena_of(true), begin) && !is_in(arena_of(false), begin)) found.insert(begin);
  }
  return found;
}

// All memory that a launch can reach, examined.
std::set<uintptr_t> reached_from(const std::set<uintptr_t> &roots, gpt2::ThreadPool &pool) {
  std::set<uintptr_t> found;
  for (std::vector<uintptr_t> next(roots.begin(), roots.end()); !next.empty();) {
    const uintptr_t begin = next.back();
    next.pop_back();
    const auto region = table().live.find(begin);
    if (region == table().live.end() || !found.insert(begin).second) continue;
    examine(region->second, pool);
    next.insert(next.end(), region->second.targets.begin(), region->second.targets.end());
  }
  return found;
}

uint64_t hash_of(const std::set<uintptr_t> &regions) {
  uint64_t hash = 0;
  for (const uintptr_t begin : regions) {
    const Region &region = table().live[begin];
    const uint64_t parts[] = {hash, begin, region.is.bytes, hash_of(reinterpret_cast<const char *>(region.hashes.data()), region.hashes.size() * 8)};
    hash = hash_of(reinterpret_cast<const char *>(parts), sizeof parts);
  }
  return hash;
}

// Records the pages that a launch has changed, by the hashes before it. False if it changed too much.
bool record(Repeat &repeat, const std::map<uintptr_t, std::vector<uint64_t>> &before, gpt2::ThreadPool &pool, size_t &recorded) {
  recorded -= repeat.changes.size() * page;
  repeat.changes.clear();
  repeat.targets.clear();
  for (const auto &[begin, hashes] : before) {
    Region &region = table().live[begin];
    examine(region, pool);
    for (size_t i = 0; i < hashes.size(); i++) {
      if (region.hashes[i] == hashes[i]) continue;
      const char *at = reinterpret_cast<const char *>(begin) + i * page;
      repeat.changes.push_back({begin, i, region.hashes[i], std::vector<char>(at, at + bytes_of_page(region, i))});
      repeat.targets[begin] = region.targets;
      if ((recorded += page) > most_recorded) return false;
    }
  }
  return true;
}

std::string key_of(const Launch &launch) {
  std::string key = launch.kernel;
  const auto add = [&](const void *data, size_t bytes) { key.append(static_cast<const char *>(data), bytes); };
  add(&launch.body, sizeof launch.body);
  add(&launch.blocks, sizeof launch.blocks);
  add(&launch.threads, sizeof launch.threads);
  add(&launch.dynamic_shared, sizeof launch.dynamic_shared);
  if (launch.argument_bytes > 0) add(launch.arguments, launch.argument_bytes);
  return key;
}

// The blocks of a launch.
class Blocks {
 public:
  Blocks(const Job &job, Counts &counts, uint64_t id)
      : job_(job), launch_(with_body(job.launch, true)), plain_(with_body(job.launch, false)), counts_(counts), id_(id),
        count_(int64_t{launch_.blocks.x} * launch_.blocks.y * launch_.blocks.z) {
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
    if (!launch_.has_checks || job_.checks == Checks::none) return unchecked(0, count_);
    for (int64_t index = 0; index < count_ && !has_failed_;) {
      if (is_checked(index)) {
        checked(index++);
      } else {
        // Neighbours of the next sample, in the order of blocks, because a block may wait for an earlier one.
        const int64_t end = std::min(index + gap(), std::max(count_ - 1, index + 1));
        unchecked(index, end);
        index = end;
      }
    }
  }

  bool has_failed() const { return has_failed_; }
  Defects defects;

 private:
  static Launch with_body(Launch launch, bool has_checks) {
    launch.body = twin_of(launch.body, has_checks);
    return launch;
  }
  bool are_all_checked() const {
    return job_.checks == Checks::all || counts_.accesses < gpt2_emulator::settings.all_checked;
  }

  bool is_checked(int64_t index) {
    if (are_all_checked()) return true;
    // The first and the last block of a large launch always: kernels go wrong at the ends of arrays.
    const bool is_end = index == 0 || index == count_ - 1, is_due = counts_.samples * sample_of <= counts_.blocks - counts_.checked;
    if (is_end ? !is_due && uint64_t(count_) < 2 * sample_of : !is_due || !is_sample_) return false;
    counts_.samples++;
    return true;
  }

  // The number of blocks to the next sample.
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

  void checked(int64_t index) {
    Memory &memory = begin_checks();
    const uint64_t before = memory.accesses;
    Block &block = block_of_thread();
    if (!block.run(launch_, id_, &memory, index)) fail(block.failure);
    *launch_.watch = {0, 0};
    counts_.accesses += memory.accesses - before;
    counts_.blocks++;
    counts_.checked++;
    is_sample_ = false;
  }

  void unchecked(int64_t first, int64_t end) {
    end_checks();
    std::mutex mutex;
    std::atomic<bool> stops{false};
    job_.pool->each_free(end - first, [&](int64_t index, int) {
      if (stops.load(std::memory_order_relaxed)) return;
      Block &block = block_of_thread();
      if (block.run(plain_, id_, nullptr, first + index)) return;
      const std::lock_guard<std::mutex> lock(mutex);
      stops = true;
      if (!has_failed_) fail(block.failure);
    });
    counts_.blocks += static_cast<uint64_t>(end - first);
  }

  // All blocks at the same time, on one OS thread: each runs to the next barrier of the grid.
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
    *launch_.watch = {0, 0};
    if (memory) counts_.accesses += memory->accesses - before;
    counts_.blocks += static_cast<uint64_t>(count_);
    if (checks) counts_.checked += static_cast<uint64_t>(count_);
  }

  void fail(const Defect &defect) {
    defects.all.push_back(defect);
    has_failed_ = true;
  }

  // Blocks without checks may write whatever the launch was given, or its other blocks touched: all of that counts as written.
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
  Repeat none;
  if (all.repeats.size() > most_repeats || all.recorded > most_recorded) {
    all.repeats.clear();
    all.recorded = 0;
  }
  Repeat &repeat = job.can_be_left_out ? all.repeats[key_of(job.launch)] : none;
  // Comparing the memory costs time: done where that is little, or less than the launch takes by its threads and accesses.
  const auto product = [](const Sizes &of) { return double(of.x) * of.y * of.z; };
  const double launched = product(job.launch.blocks), threads = launched * product(job.launch.threads);
  const double accesses = launched * double(counts.accesses) / double(std::max<uint64_t>(counts.checked, 1));
  const std::set<uintptr_t> roots = job.can_be_left_out ? roots_of(job.launch) : std::set<uintptr_t>();
  double bytes = 0;
  for (const uintptr_t each : roots) bytes += double(table().live[each].is.bytes);
  const bool is_due = repeat.seen >= repeat.next_try, is_cheap = bytes < (repeat.seen == 0 ? 8 * threads : std::max({64e6, 32 * threads, 16 * accesses}));
  bool compares = job.can_be_left_out && is_cheap && (repeat.seen == 0 || repeat.is_recorded || is_due);
  const std::set<uintptr_t> reached = compares ? reached_from(roots, *job.pool) : std::set<uintptr_t>();
  const uint64_t before = hash_of(reached);
  if (compares && repeat.is_recorded && repeat.before == before) {
    counts.left_out++;
    repeat.next_try = repeat.seen;
    if (repeat.changes.empty()) return done;
    const gpt2_emulator::OpenMemory open(repeat.changes.size() * 64);
    for (const auto &[begin, index, hash, bytes] : repeat.changes) {
      std::memcpy(reinterpret_cast<char *>(begin) + index * page, bytes.data(), bytes.size());
      table().live[begin].hashes[index] = hash;
    }
    for (const auto &[begin, targets] : repeat.targets) table().live[begin].targets = targets;
    return done;
  }
  // A launch that changes the memory in another way each time is compared ever more rarely.
  compares &= !repeat.is_recorded || is_due;
  if (repeat.is_recorded || is_due) repeat.next_try = std::max(repeat.next_try, repeat.seen * 2);
  std::map<uintptr_t, std::vector<uint64_t>> hashes;
  if (compares) {
    for (const uintptr_t each : reached) hashes[each] = table().live[each].hashes;
  }
  const size_t allocations = table().live.size();
  const gpt2_emulator::OpenMemory open{static_cast<uint64_t>(threads)};
  has_effect = false;
  static std::atomic<uint64_t> ids{0};
  Blocks blocks(job, counts, ++ids);
  blocks.run();
  table().launches++;
  repeat.seen++;
  repeat.is_recorded = false;
  done.defects = std::move(blocks.defects.all);
  if (blocks.has_failed()) {
    const Defect::Kind kind = done.defects.back().kind;
    done.outcome = kind == Defect::Kind::failed_assert ? Outcome::failed_assert
                   : kind == Defect::Kind::bad_access  ? Outcome::bad_access
                                                       : Outcome::stuck;
  }
  if (compares && !has_effect && !blocks.has_failed() && table().live.size() == allocations) {
    repeat.before = before;
    repeat.is_recorded = record(repeat, hashes, *job.pool, all.recorded);
  }
  return done;
}

}  // namespace gpt2::emulator
