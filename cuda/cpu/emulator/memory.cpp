#include "memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "block.h"

namespace gpt2::emulator {

using gpt2_emulator::Kind;
using gpt2_emulator::Launch;
using gpt2_emulator::Sizes;

namespace {

// The default size of the heap of malloc on a GPU (cudaLimitMallocHeapSize).
constexpr size_t heap_bytes = 8 << 20;

}  // namespace

std::vector<uintptr_t> Memory::touched() const {
  std::vector<uintptr_t> found;
  for (const unsigned each : used_sites_) {
    if (sites_[each].bytes > 0) found.push_back(sites_[each].begin);
  }
  return found;
}

// The entry (site) of a code address in a hash table with linear probing; the hash is the last bits of the address. A full table, which no
// program has filled, shares its last entry.
Memory::Site *Memory::site_of(const void *caller) {
  uintptr_t at = reinterpret_cast<uintptr_t>(caller) % site_count;
  while (sites_[at].caller && sites_[at].caller != caller && used_sites_.size() < site_count) at = (at + 1) % site_count;
  if (!sites_[at].caller) {
    sites_[at].caller = caller;
    sites_[at].index = static_cast<unsigned>(at);
    used_sites_.push_back(static_cast<unsigned>(at));
  }
  return &sites_[at];
}

void Memory::begin_launch(const Launch &launch, Heap &heap, Defects &found) {
  launch_ = &launch;
  heap_ = &heap;
  defects_ = &found;
  forget_sites();
  shared_.clear();
  begun_.clear();
  blocks_.clear();
  last_release_ = 0;
  suspect_ = Suspect();
  order_all();
}

void Memory::clear_shared() {
  const size_t used = std::exchange(shared_shadow_->used, 0);
  if (used > 0) std::memset(words_at(shared_shadow_->words(shared_begin_, shared_bytes_), shared_begin_), 0, (used + 3) / 4 * 4 * sizeof(uint64_t));
}

void Memory::begin_block(unsigned block, unsigned threads, std::pair<char *, size_t> shared,
                         std::pair<const char *, const char *> stacks, bool goes_on) {
  block_ = block;
  block_first_ = phase_first_ = (moment_ + 1) << moment_shift;
  begun_.push_back({moment_ + 1, block});
  block_clock_ = nullptr;
  stacks_begin_ = reinterpret_cast<uintptr_t>(stacks.first);
  stacks_bytes_ = static_cast<size_t>(stacks.second - stacks.first);
  shared_begin_ = reinterpret_cast<uintptr_t>(shared.first);
  shared_bytes_ = shared.second;
  shared_.clear();
  shared_shadow_ = &shared_shadows_[shared_begin_];
  if (!goes_on) clear_shared();
  unwritten_.text.clear();
  suspect_ = Suspect();
  for (void *each : freed_) std::free(each);
  freed_.clear();
  threads_.assign(threads, Clock());
  clocks_.clear();
  if (!copies_.empty()) {
    copies_.clear();
    copying_.clear();
  }
  pending_ = 0;
}

void Memory::declare_shared(const void *memory, size_t bytes, const std::string &names) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  shared_.push_back({begin, bytes, 0, names + " (shared memory)"});
  // The dynamic array has 0 bytes, and lies after all arrays, if the launch asks for no dynamic shared memory.
  if (bytes > 0) shared_shadow_->used = std::max<size_t>(shared_shadow_->used, begin + bytes - shared_begin_);
}

// __syncwarp: the accesses so far of all lanes in `mask` come before the next accesses of each. Each lane also gets the orders that any of
// the lanes has from earlier warp barriers (clocks_) and atomic operations (acquired).
void Memory::order_warp(unsigned first, unsigned mask) {
  if (clocks_.empty()) clocks_.assign(threads_.size() * 32, 0);
  uint64_t joined[32] = {}, acquired = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    acquired = std::max(acquired, threads_[first + lane].acquired);
    for (unsigned i = 0; i < 32; i++) joined[i] = std::max(joined[i], clocks_[(first + lane) * 32 + i]);
  }
  for (unsigned i = 0; i < 32; i++) joined[i] = mask >> i & 1 ? moment_ + 1 : joined[i];
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    std::copy(joined, joined + 32, &clocks_[(first + lane) * 32]);
    threads_[first + lane].acquired = acquired;
  }
}

void Memory::fence(unsigned thread) {
  if (!block_clock_) block_clock_ = &blocks_[block_];
  threads_[thread].is_fenced = block_clock_->is_fenced = true;
}

void Memory::atomic(unsigned thread) {
  if (!block_clock_ && last_release_ == 0) return;
  if (!block_clock_) block_clock_ = &blocks_[block_];
  for (Clock *clock : {&threads_[thread], block_clock_}) {
    if (!clock->is_fenced) continue;
    resume(thread);
    clock->released = last_release_ = moment_;
  }
  // The release includes accesses of other lanes that an earlier __syncwarp ordered before the release.
  for (unsigned i = 0; i < 32 && threads_[thread].is_fenced && !clocks_.empty(); i++) {
    const uint64_t known = clocks_[thread * 32 + i];
    if (known > 0) threads_[thread / 32 * 32 + i].released = std::max(threads_[thread / 32 * 32 + i].released, known);
  }
  threads_[thread].acquired = block_clock_->acquired = last_release_;
}

void Memory::begin_copy(uintptr_t to, size_t bytes, unsigned thread, const void *caller) {
  if (!is_shared(to)) return;
  copies_.resize(threads_.size());
  copying_.resize(shared_bytes_);
  copies_[thread].pending.push_back({to, bytes, copies_[thread].groups, caller});
  std::fill_n(copying_.begin() + static_cast<ptrdiff_t>(to - shared_begin_), bytes, static_cast<uint16_t>(thread + 1));
  pending_++;
}

void Memory::end_copies(unsigned thread, size_t prior, const void *caller) {
  if (copies_.empty()) return;
  Copies &copies = copies_[thread];
  const auto is_running = [&](const Copies::Copy &copy) { return copy.group + prior >= copies.groups; };
  const auto first = std::stable_partition(copies.pending.begin(), copies.pending.end(), is_running);
  const std::vector<Copies::Copy> ended(first, copies.pending.end());
  copies.pending.erase(first, copies.pending.end());
  pending_ -= ended.size();
  // For other threads, the copies count as writes at this moment: every use of their bytes since the copies began has been reported.
  for (const Copies::Copy &copy : ended) {
    std::fill_n(copying_.begin() + static_cast<ptrdiff_t>(copy.to - shared_begin_), copy.bytes, uint16_t{0});
    access(copy.to, copy.bytes, true, false, caller);
  }
  suspect_ = Suspect();
}

// Reports an access to bytes that an asynchronous copy may still write.
bool Memory::is_pending(uintptr_t address, size_t bytes, uint64_t now) {
  const auto first = copying_.begin() + static_cast<ptrdiff_t>(address - shared_begin_);
  const auto found = std::find_if(first, first + static_cast<ptrdiff_t>(bytes), [](uint16_t thread) { return thread > 0; });
  if (found == first + static_cast<ptrdiff_t>(bytes)) return false;
  const unsigned thread = *found - 1u;
  const uintptr_t at = shared_begin_ + static_cast<uintptr_t>(found - copying_.begin());
  const void *other = nullptr;
  for (const Copies::Copy &copy : copies_[thread].pending) {
    if (copy.to <= at && at < copy.to + copy.bytes) other = copy.caller;
  }
  const void *caller = caller_of(now);
  if (defects_->count(Defect::Kind::race, caller, other)) return true;
  defects_->add({Defect::Kind::race,
                 name_of_thread(thread_of(now)) + " races: it " + (now & is_write_bit ? "writes " : "reads ") + name_at(address, bytes) + ", but " +
                     (thread == thread_of(now) ? "it" : "thread " + std::to_string(thread)) + " has not waited for its asynchronous copy there",
                 caller, other});
  return true;
}

bool Memory::is_ordered(uint64_t before, uint64_t now) const {
  const uint64_t then = before >> moment_shift;
  if (before < block_first_) {
    if (!block_clock_ || block_clock_->acquired <= then) return false;
    const auto clock = blocks_.find(static_cast<unsigned>(block_of(then)));
    return clock != blocks_.end() && clock->second.released > then;
  }
  const unsigned old = thread_of(before), thread = thread_of(now);
  if (before < phase_first_ || old == thread) return true;
  if (old / 32 == thread / 32 && !clocks_.empty() && clocks_[thread * 32 + old % 32] > then) return true;
  return last_release_ > then && threads_[old].released > then && threads_[thread].acquired > then;
}

uint64_t Memory::block_of(uint64_t moment) const {
  const auto next = std::upper_bound(begun_.begin(), begun_.end(), std::make_pair(moment, ~0u));
  return next == begun_.begin() ? block_ : (next - 1)->second;
}

// Checks an access to four bytes against the accesses in their shadow words, and stores it there.
void Memory::check(uint64_t *slots, uint64_t now, const Site &site, uintptr_t address, size_t bytes) {
  const uint64_t mask = now & all_bytes, floor = *site.floor;
  const bool is_write = now & is_write_bit;
  if (site.is_tracked) {
    const uint64_t wanted = mask << (written_shift - bytes_shift);
    if ((slots[0] & wanted) != wanted) {
      if (!is_write || (now & is_atomic_bit)) unwritten(now, address, bytes);
      if (is_write) slots[0] |= wanted;
    }
  }
  int mine = -1, unused = -1, reads = 0, last_read = 0;
  // A write searches from the first word on. A read searches from the second word on, the first word last, as check_word expects.
  for (int j = 0; j < 4; j++) {
    const int i = is_write ? j : j < 2 ? j + 1 : j == 2 ? 3 : 0;
    const uint64_t before = slots[i];
    if (before < floor) {
      if (unused < 0) unused = i;
      continue;
    }
    if (!(before & mask)) continue;
    // `is_hidden`: the new access may replace the old access in the record. An atomic access must not replace a plain write: a third
    // thread's atomic operation races with the plain write. A write must not replace a read: a later write races with the read.
    const bool is_hidden = !((before ^ now) & is_write_bit) && (!(now & is_atomic_bit) || (before & is_atomic_bit));
    const bool is_replaced = (before & ~now & all_bytes) == 0 && is_hidden;
    if ((before ^ now) >> moment_shift == 0) {
      // No race: the running thread made the earlier access, too, and no other thread has run since.
      if ((before & mask) == mask && (is_write <= ((before & is_write_bit) != 0)) && !((before ^ now) & is_atomic_bit)) return;
    } else if (!((before | now) & is_write_bit)) {
      if (!is_ordered(before, now)) {
        last_read = i;
        reads++;
        continue;
      }
    } else if (!(before & now & is_atomic_bit) && !is_ordered(before, now)) {
      conflict(before, now, address, bytes);
    }
    if (!is_replaced) continue;
    if (mine >= 0) slots[i] &= i == 0 ? written_bits : 0;
    else mine = i;
  }
  if (is_write && unused == 0 && mine > 0) {
    slots[mine] = 0;
    mine = 0;
  }
  // Keep two unordered reads: a write that conflicts with any read conflicts with at least one of them.
  int to = mine >= 0 ? mine : reads >= 2 ? last_read : unused;
  if (to < 0) {
    for (int i = 0; i < 4; i++) {
      if (!(slots[i] & is_write_bit)) to = i;
    }
    if (to < 0 && !is_write) return;
    if (to < 0) to = 3;
  }
  slots[to] = to == 0 ? (slots[0] & written_bits) | now : now;
}

// Checks an access that is not of aligned groups of four bytes, or that is made while asynchronous copies are pending.
bool Memory::access_bytes(uintptr_t address, size_t bytes, uint64_t now, const Site &site) {
  if (pending_ > 0 && is_shared(address) && is_pending(address, bytes, now)) return true;
  for (uintptr_t at = address, end = address + bytes; at < end; at = (at & ~uintptr_t{3}) + 4) {
    const uint64_t mask = ((uint64_t{1} << std::min<uintptr_t>(end - (at & ~uintptr_t{3}), 4)) - 1) & (uint64_t{15} << (at & 3));
    uint64_t *slots = words_at(site.words, at);
    if (mask != 15 || !check_word(slots, now | all_bytes, site)) check(slots, now | mask << bytes_shift, site, bytes > 16 ? at : address, bytes);
  }
  return true;
}

// Finds the region of an access, and stores it in the entry of the code address (site) for the next accesses. NULL if the launch must fail.
Memory::Site *Memory::locate(uintptr_t address, size_t bytes, bool is_write, const void *caller) {
  Site &site = *site_of(caller);
  // Stores the range in the site if it contains the whole access.
  const auto use = [&](uintptr_t begin, size_t size, uintptr_t words, bool is_tracked) {
    if (address - begin >= size || size - (address - begin) < bytes) return false;
    site.begin = begin;
    site.bytes = size;
    site.words = words;
    site.is_tracked = is_tracked;
    site.floor = is_shared(begin) ? &phase_first_ : &launch_first_;
    return true;
  };
  if (use(site.begin, site.bytes, site.words, site.is_tracked) || use(stacks_begin_, stacks_bytes_, 0, false)) return &site;
  const gpt2_emulator::Position here = launch_->here();
  for (const Sizes *each : {here.thread, here.block, here.threads, here.blocks}) {
    if (use(reinterpret_cast<uintptr_t>(each), sizeof *each, 0, false)) return &site;
  }
  if (use(reinterpret_cast<uintptr_t>(launch_->arguments), launch_->argument_bytes, 0, false)) return &site;
  // The site does not store constants, so that a write to one is always detected.
  site.bytes = 0;
  site.words = 0;
  if (is_shared(address)) {
    const uintptr_t words = shared_shadow_->words(shared_begin_, shared_bytes_);
    for (const Place &each : shared_) {
      if (use(each.begin, each.bytes, words, true)) return &site;
    }
    return outside(address, bytes, is_write, caller) ? &site : nullptr;
  }
  const LockedTable all;
  Region *region = all->at(address);
  if (region && region->is.kind == Kind::host) {
    const std::string does = is_write ? "writes " : "reads ";
    return refuse(does + name_at(address, bytes) + ", a variable of the host: declare it __device__ or __constant__", caller), nullptr;
  }
  if (region && region->is.kind != Kind::constant) {
    const uintptr_t begin = region->is.begin;
    if (use(begin, region->is.bytes, region->shadow.words(begin, region->is.bytes), !region->is_written)) return &site;
  }
  const bool is_constant = region && region->is.kind == Kind::constant && address + bytes <= region->is.begin + region->is.bytes;
  if (!is_constant) return outside(address, bytes, is_write, caller) ? &site : nullptr;
  return !is_write || refuse("writes " + name_at(address, bytes) + ", which is constant", caller) ? &site : nullptr;
}

void *Memory::allocate(size_t bytes) {
  if (bytes > heap_bytes - heap_->used) return nullptr;
  void *made = std::malloc(bytes + gap_bytes);
  if (!made) return nullptr;
  const LockedTable all;
  heap_->used += bytes;
  Region &region = all->insert(reinterpret_cast<uintptr_t>(made), bytes, Kind::device, 0, "memory from malloc", nullptr);
  region.heap = heap_;
  region.is_written = true;
  return made;
}

bool Memory::release(uintptr_t address) {
  const LockedTable all;
  const auto block = all->live.find(address);
  if (block == all->live.end() || block->second.heap != heap_) return false;
  heap_->used -= block->second.is.bytes;
  all->live.erase(block);
  forget_sites();
  // The memory is reused only after the block's end, so that an access after free is detected.
  freed_.push_back(reinterpret_cast<void *>(address));
  return true;
}

// Called every 2^28 moments (time stamps): forgets all earlier accesses, but not which bytes were written.
void Memory::forget_accesses() {
  const auto forget = [](Shadow &shadow) {
    if (!shadow.is_there()) return;
    for (uint64_t *word = shadow.begin(); word < shadow.end(); word++) {
      if (*word != 0) *word &= (word - shadow.begin()) % 4 == 0 ? written_bits : 0;
    }
  };
  const LockedTable all;
  for (auto &[begin, region] : all->live) forget(region.shadow);
  for (auto &[begin, shadow] : shared_shadows_) forget(shadow);
  moment_ = 2;
  launch_first_ = block_first_ = phase_first_ = moment_ << moment_shift;
  begun_ = {{moment_, block_}};
  clocks_.clear();
  threads_.assign(threads_.size(), Clock());
  blocks_.clear();
  block_clock_ = nullptr;
  last_release_ = 0;
}

}  // namespace gpt2::emulator
