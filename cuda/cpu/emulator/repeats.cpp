#include "repeats.h"

#include <algorithm>
#include <cstring>

namespace gpt2::emulator {

using gpt2_emulator::Kind;
using gpt2_emulator::Launch;

namespace {

constexpr size_t page = 4096;
// Changed pages that all records hold, 1 GiB.
constexpr size_t most_pages = size_t{1} << 18;
// Earlier launches that are remembered.
constexpr size_t most_records = 10000;

struct Records {
  std::map<std::string, Record> of;
  size_t pages = 0;
};

Records &records() {
  static Records &made = *new Records;
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

}  // namespace

Repeat::Repeat(const Job &job, double threads, double accesses) : job_(job) {
  if (!job.can_be_left_out) return;
  Records &all = records();
  if (all.of.size() > most_records || all.pages > most_pages) all = Records();
  record_ = &all.of[key_of(job.launch)];
  const std::set<uintptr_t> roots = roots_of(job.launch);
  double bytes = 0;
  for (const uintptr_t each : roots) bytes += double(table().live[each].is.bytes);
  // Comparing the memory costs time: done where that is little, or less than the launch takes by its threads and accesses.
  const bool is_cheap = bytes < (record_->seen == 0 ? 8 * threads : std::max({64e6, 32 * threads, 16 * accesses}));
  is_due_ = record_->seen >= record_->next_try;
  compares_ = is_cheap && (record_->seen == 0 || record_->is_recorded || is_due_);
  if (!compares_) return;
  const std::set<uintptr_t> reached = reached_from(roots, *job.pool);
  before_ = hash_of(reached);
  for (const uintptr_t each : reached) hashes_[each] = table().live[each].hashes;
}

bool Repeat::restore() {
  if (!record_) return false;
  if (!compares_ || !record_->is_recorded || record_->before != before_) {
    // A launch that changes the memory in another way each time is compared ever more rarely.
    compares_ &= !record_->is_recorded || is_due_;
    if (record_->is_recorded || is_due_) record_->next_try = std::max(record_->next_try, record_->seen * 2);
    allocations_ = table().live.size();
    return false;
  }
  record_->next_try = record_->seen;
  if (record_->changes.empty()) return true;
  const gpt2_emulator::OpenMemory open(record_->changes.size() * 64);
  for (const auto &[begin, index, hash, bytes] : record_->changes) {
    std::memcpy(reinterpret_cast<char *>(begin) + index * page, bytes.data(), bytes.size());
    table().live[begin].hashes[index] = hash;
  }
  for (const auto &[begin, targets] : record_->targets) table().live[begin].targets = targets;
  return true;
}

void Repeat::record(bool is_same) {
  if (!record_) return;
  record_->seen++;
  record_->before = before_;
  record_->is_recorded = compares_ && is_same && table().live.size() == allocations_ && add_changes();
}

// Records the pages that the launch has changed. False if it changed too much.
bool Repeat::add_changes() {
  size_t &pages = records().pages;
  pages -= record_->changes.size();
  record_->changes.clear();
  record_->targets.clear();
  for (const auto &[begin, hashes] : hashes_) {
    Region &region = table().live[begin];
    examine(region, *job_.pool);
    for (size_t i = 0; i < hashes.size(); i++) {
      if (region.hashes[i] == hashes[i]) continue;
      const char *at = reinterpret_cast<const char *>(begin) + i * page;
      record_->changes.push_back({begin, i, region.hashes[i], std::vector<char>(at, at + bytes_of_page(region, i))});
      record_->targets[begin] = region.targets;
      if (++pages > most_pages) return false;
    }
  }
  return true;
}

}  // namespace gpt2::emulator
