#include "repeats.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace gpt2::emulator {

using gpt2_emulator::Kind;
using gpt2_emulator::Launch;

namespace {

constexpr size_t page = 4096;
// The limit on changed pages in all records together: 2^18 pages of 4 KiB, 1 GiB.
constexpr size_t most_pages = size_t{1} << 18;
// The most records of earlier launches that are kept.
constexpr size_t most_records = 10000;

struct Records {
  std::mutex mutex;
  std::map<std::string, Record> of;
  size_t pages = 0;
};

Records &records() { return only<Records>(); }

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

size_t bytes_of_page(const Region &region, size_t index) { return std::min(page, region.is.bytes - index * page); }

// Hashes the pages of a region, and finds the regions that its words may point to. Earlier hashes of device memory stay valid until a
// launch or an API call writes to it, because nothing else writes to device memory.
void examine(Region &region, gpt2::ThreadPool &pool) {
  const bool is_known = region.is.kind == Kind::device || region.is.kind == Kind::constant;
  if (is_known && region.hashed == table().launches) return;
  const auto *at = reinterpret_cast<const char *>(region.is.begin);
  const gpt2_emulator::OpenMemory open(at, region.is.bytes);
  std::mutex mutex;
  const gpt2_emulator::Watch device = arena_of(true), other = arena_of(false);
  region.hashes.resize((region.is.bytes + page - 1) / page);
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

}  // namespace

// The key under which equal launches have one record: allocations enter as numbers, because the host may allocate anew for each launch.
// Also fills regions_: first the regions of the arguments, then all regions outside of the arenas (variables, malloc of kernels, registered
// host memory).
std::string Repeat::key(const Launch &launch) {
  std::string key = launch.kernel;
  const auto add = [&](const auto &...values) { (key.append(reinterpret_cast<const char *>(&values), sizeof values), ...); };
  add(launch.body, launch.blocks, launch.threads, launch.dynamic_shared);
  for (size_t at = 0; at < launch.argument_bytes; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char *>(launch.arguments) + at, std::min(sizeof word, launch.argument_bytes - at));
    const Region *region = table().at(word);
    const auto found = std::find(regions_.begin(), regions_.end(), region ? region->is.begin : 0);
    const size_t number = static_cast<size_t>(found - regions_.begin());
    if (region && found == regions_.end()) regions_.push_back(region->is.begin);
    can_move_ &= region || !is_in_arena(word);
    const bool is_counted = region && is_in_arena(word);
    add(is_counted);
    if (is_counted) add(number);
    add(is_counted ? word - region->is.begin : word);
  }
  const std::vector<uintptr_t> given = regions_;
  for (const auto &[begin, region] : table().live) {
    if (!is_in_arena(begin) && std::find(given.begin(), given.end(), begin) == given.end()) regions_.push_back(begin);
  }
  return key;
}

Repeat::Repeat(const Launch &launch, gpt2::ThreadPool &pool, bool always_runs, double threads, double accesses) : pool_(pool) {
  if (always_runs) return;
  Records &all = records();
  lock_ = std::unique_lock<std::mutex>(all.mutex);
  if (all.of.size() > most_records || all.pages > most_pages) {
    all.of.clear();
    all.pages = 0;
  }
  record_ = &all.of[key(launch)];
  double bytes = 0;
  for (const uintptr_t each : regions_) bytes += double(table().live[each].is.bytes);
  // Compare the memory only if it is small, or if comparing takes less time than the launch, judged by threads and accesses.
  const bool is_cheap = bytes < (record_->seen == 0 ? std::max(8 * threads, 2 * accesses) : std::max({64e6, 32 * threads, 16 * accesses}));
  is_due_ = record_->seen >= record_->next_try;
  compares_ = is_cheap && (record_->seen == 0 || record_->is_recorded || is_due_);
  if (!compares_) return;
  // Follow pointers from the arguments to all memory that the launch can reach.
  std::set<uintptr_t> found(regions_.begin(), regions_.end());
  for (size_t i = 0; i < regions_.size(); i++) {
    Region &region = table().live[regions_[i]];
    examine(region, pool);
    for (const uintptr_t each : region.targets) {
      if (table().live.count(each) > 0 && found.insert(each).second) regions_.push_back(each);
    }
    can_move_ &= region.targets.empty() && (region.is_written || !region.shadow.is_there());
    hashes_.push_back(region.hashes);
    const uint64_t parts[] = {before_, region.is_written, region.is.bytes, hash_of(reinterpret_cast<const char *>(region.hashes.data()), region.hashes.size() * 8)};
    before_ = hash_of(reinterpret_cast<const char *>(parts), sizeof parts);
  }
}

bool Repeat::restore() {
  if (!record_) return false;
  if (!compares_ || !record_->is_recorded || record_->before != before_ || !(record_->regions == regions_ || (record_->can_move && can_move_))) {
    // A launch whose changes differ each time is compared ever more rarely.
    compares_ &= !record_->is_recorded || is_due_;
    if (record_->is_recorded || is_due_) record_->next_try = std::max(record_->next_try, record_->seen * 2);
    allocations_ = table().live.size();
    return false;
  }
  record_->next_try = record_->seen;
  for (size_t i = 0; i < regions_.size(); i++) {
    if (regions_[i] != record_->regions[i]) table().live[regions_[i]].is_written = true;
  }
  if (record_->changes.empty()) return true;
  const gpt2_emulator::OpenMemory open(record_->changes.size() * 64);
  for (const auto &[region, index, hash, bytes] : record_->changes) {
    std::memcpy(reinterpret_cast<char *>(regions_[region]) + index * page, bytes.data(), bytes.size());
    Region &changed = table().live[regions_[region]];
    changed.hashes[index] = hash;
    // The copied page may hold other pointers: examine the region again.
    if (!record_->can_move) changed.hashed = 0;
  }
  return true;
}

void Repeat::record(bool is_same) {
  if (!record_) return;
  record_->seen++;
  record_->is_recorded = compares_ && is_same && table().live.size() == allocations_ && add_changes();
}

// Records the pages that the launch has changed. False if all records would hold more than most_pages.
bool Repeat::add_changes() {
  size_t &pages = records().pages;
  pages -= record_->changes.size();
  record_->changes.clear();
  record_->before = before_;
  record_->can_move = can_move_;
  for (size_t number = 0; number < regions_.size(); number++) {
    Region &region = table().live[regions_[number]];
    examine(region, pool_);
    for (size_t i = 0; i < region.hashes.size(); i++) {
      if (region.hashes[i] == hashes_[number][i]) continue;
      const char *at = reinterpret_cast<const char *>(region.is.begin) + i * page;
      record_->changes.push_back({number, i, region.hashes[i], std::vector<char>(at, at + bytes_of_page(region, i))});
      record_->can_move &= region.targets.empty();
      if (++pages > most_pages) return false;
    }
  }
  record_->regions = std::move(regions_);
  return true;
}

}  // namespace gpt2::emulator
