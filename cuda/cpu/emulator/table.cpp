#include "table.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "block.h"
#include "memory.h"
#include "reports.h"

namespace gpt2::emulator {

using gpt2_emulator::Kind;

namespace {

// Bytes of a huge page. The arenas use huge pages, whose protection takes less time to change.
constexpr size_t huge = 2 << 20;

// A reserved range of addresses. No address is allocated twice, so that use after free is detected. Only touched pages cost memory.
struct Arena {
  uintptr_t begin = 0, next = 0, end = 0;

  Arena() {
    for (const int bits : {40, 37, 34}) {
      void *made = mmap(nullptr, size_t{1} << bits, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (made == MAP_FAILED) continue;
      begin = next = (reinterpret_cast<uintptr_t>(made) + huge - 1) / huge * huge;
      end = reinterpret_cast<uintptr_t>(made) + (size_t{1} << bits);
#ifdef MADV_HUGEPAGE
      madvise(made, size_t{1} << bits, MADV_HUGEPAGE);
#endif
      return;
    }
  }
};

// One arena for device memory, which host code must not access, and one for managed and pinned memory.
Arena &arena(bool is_device) {
  static Arena device, host;
  return is_device ? device : host;
}

constexpr size_t page = 4096;
// The alignment of allocations in bytes, as with cudaMalloc; also the least gap between allocations.
constexpr size_t alignment = 256;
// Shadows of at least this size are mapped, so that pages that are not touched cost nothing.
constexpr size_t mapped_bytes = 64 << 10;
// The most freed allocations that are kept for reports of use after free: the system limits the number of protected ranges.
constexpr size_t most_freed = 10000;

// The lock for changes of device memory's protection. Held while a range is open, so that no other thread closes the range.
std::recursive_mutex gate;
int opened = 0;
bool is_open = false;
// Changes of a page's protection so far, and the number after which device memory stays accessible.
uint64_t changed = 0, most_changed = 1 << 22;

// The end of the first `bytes` of the device arena, rounded up to a huge page so that the system need not split one.
uintptr_t page_end(size_t bytes) { return arena(true).begin + (bytes + huge - 1) / huge * huge; }

void protect(uintptr_t begin, uintptr_t end, bool is_wanted) {
  if (begin < end) mprotect(reinterpret_cast<void *>(begin), end - begin, is_wanted ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void set_open(bool is_wanted) {
  const gpt2_emulator::Watch used = arena_of(true);
  if (is_open == is_wanted || (!is_wanted && (opened > 0 || changed > most_changed))) return;
  changed += used.bytes / page;
  is_open = is_wanted;
  protect(used.begin, page_end(used.bytes), is_wanted);
  for (const auto &[begin, bytes] : variable_pages()) {
    changed += bytes / page;
    protect(begin, begin + bytes, is_wanted);
  }
}

Region *in(std::map<uintptr_t, Region> &regions, uintptr_t address) {
  auto next = regions.upper_bound(address);
  if (next == regions.begin()) return nullptr;
  Region &found = (--next)->second;
  return address - found.is.begin < std::max<size_t>(found.is.bytes, 1) ? &found : nullptr;
}

// The distance in bytes from an allocation to the next: a multiple of the page, gap included.
size_t room_of(size_t bytes) { return (bytes + alignment + page - 1) / page * page; }

// Calls visit(word, bits) for every four aligned bytes of a range, and for each byte at its unaligned ends, until visit returns false.
// `word` is the first shadow word of the bytes, `bits` are their `written` bits in it. Returns the address where the visits stopped.
template <class Visit>
uintptr_t each_word(Region &region, uintptr_t begin, uintptr_t end, const Visit &visit) {
  const uintptr_t words = region.shadow.words(region.is.begin, region.is.bytes);
  for (uintptr_t at = begin; at < end;) {
    const bool is_whole = at % 4 == 0 && end - at >= 4;
    if (!visit(*words_at(words, at), uint64_t{is_whole ? 15u : 1u << at % 4} << 32)) return at;
    at += is_whole ? 4 : 1;
  }
  return end;
}

}  // namespace

gpt2_emulator::Watch arena_of(bool is_device) {
  const Arena &of = arena(is_device);
  return {of.begin, of.next - of.begin};
}

gpt2_emulator::Watch closed_to_host(uintptr_t address) {
  const gpt2_emulator::Watch used = arena_of(true);
  if (is_in(used, address)) return {used.begin, page_end(used.bytes) - used.begin};
  for (const gpt2_emulator::Watch &each : variable_pages()) {
    if (is_in(each, address)) return each;
  }
  return {};
}

void open_memory() {
  const std::lock_guard<std::recursive_mutex> lock(gate);
  set_open(true);
}

bool open_freed(uintptr_t address) {
  if (!is_in(arena_of(false), address) || LockedTable()->at(address)) return false;
  protect(address / page * page, address / page * page + page, true);
  return true;
}

void Shadow::clear() {
  if (bytes_ >= mapped_bytes) munmap(memory_, bytes_);
  else std::free(memory_);
  memory_ = nullptr;
  bytes_ = 0;
}

uintptr_t Shadow::words(uintptr_t begin, size_t bytes) {
  const uintptr_t first = begin / 4, last = (begin + bytes + 3) / 4;
  if (!memory_) {
    bytes_ = (last - first + 1) * 4 * sizeof *memory_;
    void *made = bytes_ < mapped_bytes ? std::calloc(1, bytes_)
                                       : mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!made || made == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<uint64_t *>(made);
  }
  return reinterpret_cast<uintptr_t>(memory_) - first * 4 * sizeof *memory_;
}

Region &Table::insert(uintptr_t begin, size_t bytes, Kind kind, int element_bytes, const std::string &name, const void *caller) {
  Region &made = live[begin];
  made.name = name;
  made.is = {begin, bytes, kind, true, element_bytes, made.name.c_str(), caller};
  made.is_written = kind != Kind::device;
  made.hashed = 0;
  return made;
}

Region *Table::at(uintptr_t address) { return in(live, address); }
Region *Table::freed_at(uintptr_t address) { return in(freed, address); }
Region *Table::find(uintptr_t address) {
  Region *found = at(address);
  return found ? found : freed_at(address);
}

Heap::~Heap() {
  const LockedTable all;
  for (auto each = all->live.begin(); each != all->live.end();) {
    if (each->second.heap != this) {
      ++each;
      continue;
    }
    std::free(reinterpret_cast<void *>(each->first));
    each = all->live.erase(each);
  }
  memory().forget_sites();
}

}  // namespace gpt2::emulator

namespace gpt2_emulator {

using namespace gpt2::emulator;

OpenMemory::OpenMemory(uint64_t work) : is_range_(false) {
  const std::lock_guard<std::recursive_mutex> lock(gate);
  most_changed += work / 16;
  opened++;
  set_open(true);
}

OpenMemory::OpenMemory(const void *begin, size_t bytes) : is_range_(true) {
  gate.lock();
  const auto first = reinterpret_cast<uintptr_t>(begin);
  const gpt2_emulator::Watch closed = closed_to_host(first);
  if (is_open || closed.bytes == 0) return;
  begin_ = std::max(first / huge * huge, closed.begin);
  end_ = std::min((first + bytes + huge - 1) / huge * huge, closed.begin + closed.bytes);
  protect(begin_, end_, true);
}

OpenMemory::~OpenMemory() {
  const std::lock_guard<std::recursive_mutex> lock(gate);
  if (!is_range_) opened--;
  if (!is_open) protect(begin_, end_, false);
  else set_open(false);
  if (is_range_) gate.unlock();
}

void *allocate(size_t bytes, Kind kind, int element_bytes, const char *name, const void *caller) {
  // Lock the gate before the table, as every call that opens memory does; the other order could deadlock.
  const std::lock_guard<std::recursive_mutex> guard(gate);
  const LockedTable all;
  Arena &from = arena(kind == Kind::device);
  if (from.end - from.next < room_of(bytes)) return nullptr;
  const uintptr_t begin = from.next;
  from.next += room_of(bytes);
  if (kind == Kind::device) {
    all->device_bytes += bytes;
    if (variable_pages().empty()) program_watch = arena_of(true);
    catch_signals();
    if (!is_open) protect(page_end(begin - from.begin), page_end(from.next - from.begin), false);
  }
  all->insert(begin, bytes, kind, element_bytes, name, caller);
  return reinterpret_cast<void *>(begin);
}

bool release(void *memory, const void *caller) {
  const LockedTable all;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const auto found = all->live.find(begin);
  if (found == all->live.end()) {
    const Region *freed = all->freed_at(begin), *inner = all->at(begin);
    const std::string text = freed && freed->is.begin == begin ? described(*freed) + " again"
                             : inner                           ? "an address inside of " + described(*inner)
                                                               : "an address that was not allocated";
    report(("host code frees " + text).c_str(), caller);
    return false;
  }
  // The pages go back to the system. A later access of host code to managed or pinned memory raises a signal, which is reported.
  madvise(memory, room_of(found->second.is.bytes), MADV_DONTNEED);
  if (found->second.is.kind == Kind::device) all->device_bytes -= found->second.is.bytes;
  else if (all->freed.size() < most_freed) catch_signals(), protect(begin, begin + room_of(found->second.is.bytes), false);
  found->second.is.is_live = false;
  found->second.shadow.clear();
  found->second.hashes = {};
  all->freed.insert(all->live.extract(found));
  if (all->freed.size() > most_freed) all->freed.erase(all->freed.begin());
  gpt2::emulator::memory().forget_sites();
  return true;
}

void insert(const void *begin, size_t bytes, Kind kind, int element_bytes, const char *name) {
  const LockedTable all;
  all->insert(reinterpret_cast<uintptr_t>(begin), bytes, kind, element_bytes, name, nullptr);
}

void erase(const void *begin) {
  const LockedTable all;
  if (all->live.erase(reinterpret_cast<uintptr_t>(begin)) > 0) memory().forget_sites();
}

const Allocation *find(const void *address) {
  const LockedTable all;
  const Region *found = all->find(reinterpret_cast<uintptr_t>(address));
  return found ? &found->is : nullptr;
}

void written(const void *begin, size_t bytes, bool is_changed) {
  const LockedTable all;
  const auto at = reinterpret_cast<uintptr_t>(begin);
  Region *region = all->at(at);
  if (!region) return;
  if (is_changed) region->hashed = 0;
  if (region->is_written) return;
  if (at == region->is.begin && bytes >= region->is.bytes) region->is_written = true;
  else each_word(*region, at, std::min(at + bytes, region->is.begin + region->is.bytes), [](auto &word, auto bits) { return word |= bits; });
}

const void *first_unwritten(const void *begin, size_t bytes) {
  const LockedTable all;
  const auto at = reinterpret_cast<uintptr_t>(begin);
  Region *region = all->at(at);
  const auto has = [](uint64_t word, uint64_t bits) { return (word & bits) == bits; };
  const uintptr_t found = !region || region->is_written ? at + bytes : each_word(*region, at, at + bytes, has);
  return found < at + bytes ? reinterpret_cast<const void *>(found) : nullptr;
}

}  // namespace gpt2_emulator
