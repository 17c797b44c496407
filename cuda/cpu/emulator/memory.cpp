#include "memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "block.h"

namespace gpt2::emulator {

namespace {

constexpr unsigned shared_cell_bytes = 2;

std::string count_of(int64_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::vector<std::string> split(const char *names) {
  std::vector<std::string> parts(1);
  for (const char *letter = names; *letter; letter++) {
    if (*letter == ',') parts.emplace_back();
    else if (*letter != ' ') parts.back() += *letter;
  }
  return parts;
}

}  // namespace

Memory::Memory(const gpt2_emulator::Kernel &kernel, const std::vector<Reach> &reaches, const void *module_base)
    : kernel_(kernel), module_base_(module_base), names_(split(kernel.parameter_names)) {
  names_.resize(static_cast<size_t>(kernel.parameter_count), "an argument");
  std::vector<Reach> sorted = reaches;
  std::sort(sorted.begin(), sorted.end(), [](const Reach &a, const Reach &b) { return a.begin < b.begin; });
  for (const Reach &reach : sorted) {
    const uintptr_t end = reach.begin + static_cast<uintptr_t>(reach.bytes);
    const unsigned cell_bytes = reach.element_bytes % 4 == 0 ? 4 : reach.element_bytes % 2 == 0 ? 2 : 1;
    // The same memory may be given twice.
    if (!regions_.empty() && reach.begin < regions_.back().end) {
      regions_.back().end = std::max(regions_.back().end, end);
      regions_.back().cell_bytes = std::min(regions_.back().cell_bytes, cell_bytes);
      continue;
    }
    regions_.push_back({reach.begin, end, reach.parameter, cell_bytes, nullptr});
  }
  for (Region &region : regions_) {
    region.cells = static_cast<Cell *>(std::calloc((region.end - region.begin) / region.cell_bytes + 1, sizeof(Cell)));
    if (!region.cells) throw std::bad_alloc();
  }
}

Memory::~Memory() {
  for (const Region &region : regions_) std::free(region.cells);
}

void Memory::set_stacks(const void *begin, const void *end) {
  stacks_begin_ = reinterpret_cast<uintptr_t>(begin);
  stacks_end_ = reinterpret_cast<uintptr_t>(end);
}

void Memory::begin_block(unsigned block, unsigned threads, const char *shared, size_t bytes) {
  block_ = block + 1;
  epoch_ = 0;
  if (blocks_.size() <= block_) blocks_.resize(block_ + 1);
  shared_begin_ = reinterpret_cast<uintptr_t>(shared);
  shared_end_ = shared_begin_ + bytes;
  shared_.clear();
  unwritten_ = Unwritten();
  shared_cells_.resize(bytes / shared_cell_bytes);
  written_.assign(bytes, 0);
  threads_.assign(threads, Clock());
  copies_.assign(threads, Copies());
  if (pending_ > 0) copying_.clear();
  copying_.resize(bytes);
  pending_ = 0;
  // A lane has reached its own first moment, which the others do not know yet.
  clocks_.assign(static_cast<size_t>(threads) * 32, 0);
  for (unsigned thread = 0; thread < threads; thread++) clocks_[thread * 32 + thread % 32] = 1;
}

void Memory::declare_shared(const void *memory, size_t bytes, const std::string &names) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  shared_.push_back({begin, begin + bytes, names});
}

// The lanes learn what any of them knows, and each begins a new moment.
void Memory::order_warp(unsigned first, unsigned mask) {
  uint32_t joined[32] = {};
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    for (unsigned i = 0; i < 32; i++) joined[i] = std::max(joined[i], clocks_[(first + lane) * 32 + i]);
  }
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    std::copy(joined, joined + 32, &clocks_[(first + lane) * 32]);
    clocks_[(first + lane) * 32 + lane]++;
  }
}

void Memory::fence(unsigned thread) { threads_[thread].is_fenced = blocks_[block_].is_fenced = true; }

void Memory::atomic(unsigned thread) {
  for (Clock *clock : {&threads_[thread], &blocks_[block_]}) {
    if (clock->is_fenced) clock->released = ++time_;
  }
  threads_[thread].acquired = blocks_[block_].acquired = time_;
}

void Memory::begin_copy(uintptr_t to, size_t bytes, unsigned thread, const void *caller) {
  if (to < shared_begin_ || to >= shared_end_) return;
  copies_[thread].pending.push_back({to, bytes, copies_[thread].groups, caller});
  std::fill_n(copying_.begin() + static_cast<ptrdiff_t>(to - shared_begin_), bytes, static_cast<uint16_t>(thread + 1));
  pending_++;
}

void Memory::end_copies(unsigned thread, size_t prior, const void *caller) {
  Copies &own = copies_[thread];
  const auto first = std::stable_partition(own.pending.begin(), own.pending.end(),
                                           [&](const Copies::Copy &copy) { return copy.group + prior >= own.groups; });
  const std::vector<Copies::Copy> ended(first, own.pending.end());
  own.pending.erase(first, own.pending.end());
  pending_ -= ended.size();
  // For other threads they write now. No thread has used their bytes since they began.
  const void *other = nullptr;
  for (const Copies::Copy &copy : ended) {
    std::fill_n(copying_.begin() + static_cast<ptrdiff_t>(copy.to - shared_begin_), copy.bytes, uint16_t{0});
    access(copy.to, copy.bytes, thread, true, false, caller, other);
  }
}

// Whether an asynchronous copy may still write there.
std::string Memory::pending(uintptr_t address, size_t bytes, const Access &now, const std::function<std::string()> &place,
                            const void *&other) const {
  const auto first = copying_.begin() + static_cast<ptrdiff_t>(address - shared_begin_);
  const auto found = std::find_if(first, first + static_cast<ptrdiff_t>(bytes), [](uint16_t thread) { return thread > 0; });
  if (found == first + static_cast<ptrdiff_t>(bytes)) return "";
  const unsigned thread = *found - 1u;
  const uintptr_t at = shared_begin_ + static_cast<uintptr_t>(found - copying_.begin());
  for (const Copies::Copy &copy : copies_[thread].pending) {
    if (copy.to <= at && at < copy.to + copy.bytes) other = copy.caller;
  }
  return std::string("races: it ") + (now.is_write ? "writes " : "reads ") + place() + ", but " +
         (thread == now.thread ? "it" : "thread " + std::to_string(thread)) + " has not waited for its asynchronous copy there";
}

bool Memory::is_ordered(const Access &before, const Access &now) const {
  if (before.block != now.block) {
    return blocks_[before.block].released > before.time && blocks_[now.block].acquired > before.time;
  }
  if (before.thread == now.thread || before.epoch < now.epoch) return true;
  if (before.thread / 32 == now.thread / 32 && clocks_[now.thread * 32u + before.thread % 32] >= before.clock) return true;
  return threads_[before.thread].released > before.time && threads_[now.thread].acquired > before.time;
}

// The cells are of a region that begins `offset` bytes before the access. Empty: no race.
std::string Memory::race(Cell *cells, uintptr_t offset, unsigned cell_bytes, size_t bytes, Access now,
                         const std::string &place, const void *&other) {
  for (uintptr_t at = offset / cell_bytes; at <= (offset + bytes - 1) / cell_bytes; at++) {
    Cell &cell = cells[at];
    const uintptr_t first = std::max(offset, at * cell_bytes) % cell_bytes;
    const uintptr_t last = std::min(offset + bytes - 1, at * cell_bytes + cell_bytes - 1) % cell_bytes;
    now.bytes = static_cast<uint8_t>((1u << (last + 1)) - (1u << first));
    const auto conflicts = [&](const Access &before) {
      return before.block != 0 && (before.bytes & now.bytes) && !(before.is_atomic && now.is_atomic) && !is_ordered(before, now);
    };
    const Access *before = conflicts(cell.write) ? &cell.write : nullptr;
    if (now.is_write && !before) before = conflicts(cell.read) ? &cell.read : conflicts(cell.other_read) ? &cell.other_read : nullptr;
    if (before) {
      other = before->caller;
      const bool is_same_block = before->block == now.block;
      const std::string thread = is_same_block ? "thread " + std::to_string(before->thread)
                                               : "thread " + std::to_string(before->thread) + " of block " +
                                                     std::to_string(before->block - 1);
      return std::string("races: it ") + (now.is_write ? "writes " : "reads ") + place + ", which " + thread +
             (before->is_write ? " wrote" : " read") + (is_same_block ? " with no barrier between" : " with nothing that orders blocks");
    }
    if (now.is_write) {
      cell.write = now;
      // The reads came before: whoever conflicts with them conflicts with this write, or is ordered after it.
      cell.read = cell.other_read = Access();
    } else if (cell.read.block == 0 || is_ordered(cell.read, now)) {
      cell.read = now;
    } else {
      cell.other_read = now;
    }
  }
  return "";
}

std::string Memory::element(const Region &region, uintptr_t address) const {
  const int size = std::max(kernel_.parameters[region.parameter].element_bytes, 1);
  return parameter_name(region.parameter) + "[" +
         std::to_string((static_cast<int64_t>(address) - static_cast<int64_t>(region.begin)) / size) + "]";
}

std::string Memory::access(uintptr_t address, size_t bytes, unsigned thread, bool is_write, bool is_atomic,
                           const void *caller, const void *&other) {
  if (address >= stacks_begin_ && address < stacks_end_) return "";
  Access now;
  now.block = block_;
  now.epoch = epoch_;
  now.clock = clocks_[thread * 32 + thread % 32];
  now.time = time_;
  now.caller = caller;
  now.thread = static_cast<uint16_t>(thread);
  now.is_atomic = is_atomic;
  now.is_write = is_write;
  if (address >= shared_begin_ && address < shared_end_) return in_shared(address, bytes, now, other);
  for (size_t i = 0; i < regions_.size(); i++) {
    const size_t index = (last_region_ + i) % regions_.size();
    const Region &region = regions_[index];
    if (address < region.begin || address >= region.end) continue;
    last_region_ = index;
    if (address + bytes > region.end) break;
    // A name is made for an error only.
    std::string wrong = race(region.cells, address - region.begin, region.cell_bytes, bytes, now, "\1", other);
    if (!wrong.empty()) wrong.replace(wrong.find('\1'), 1, element(region, address));
    return wrong;
  }
  Dl_info info{};
  // A variable of the module, such as a table of constants.
  if (dladdr(reinterpret_cast<void *>(address), &info) && info.dli_fbase == module_base_) return "";
  return outside(address, bytes, is_write);
}

// As an element of as many bytes as are accessed.
std::string Memory::element(const Shared &shared, uintptr_t address, size_t bytes) {
  const auto at = static_cast<int64_t>(address) - static_cast<int64_t>(shared.begin), size = static_cast<int64_t>(bytes);
  return (at % size == 0 ? "element " + std::to_string(at / size) : "byte " + std::to_string(at)) + " of " + shared.names +
         " (shared memory)";
}

std::string Memory::in_shared(uintptr_t address, size_t bytes, const Access &now, const void *&other) {
  const Shared *nearest = nullptr;
  for (const Shared &each : shared_) {
    if (address >= each.begin && address + bytes <= each.end) {
      const uintptr_t offset = address - shared_begin_;
      const auto place = [&] { return element(each, address, bytes); };
      uint8_t *written = written_.data() + offset;
      if ((!now.is_write || now.is_atomic) && unwritten_.text.empty() &&
          !std::all_of(written, written + bytes, [](uint8_t is) { return is; })) {
        unwritten_ = {"reads " + place() + ", which no thread has written", now.caller, now.thread};
      }
      if (now.is_write) std::fill_n(written, bytes, uint8_t{1});
      // Cells of an earlier block say nothing about this one.
      for (uintptr_t at = offset / shared_cell_bytes; at <= (offset + bytes - 1) / shared_cell_bytes; at++) {
        Cell &cell = shared_cells_[at];
        if (cell.write.block != block_) cell.write = Access();
        if (cell.read.block != block_) cell.read = Access();
        if (cell.other_read.block != block_) cell.other_read = Access();
      }
      if (pending_ > 0) {
        if (std::string wrong = pending(address, bytes, now, place, other); !wrong.empty()) return wrong;
      }
      std::string wrong = race(shared_cells_.data(), offset, shared_cell_bytes, bytes, now, "\1", other);
      if (!wrong.empty()) wrong.replace(wrong.find('\1'), 1, place());
      return wrong;
    }
    // The last one before the address.
    if (!nearest || (each.begin <= address && (nearest->begin > address || each.begin > nearest->begin))) nearest = &each;
  }
  if (nearest->begin == nearest->end) {
    return "uses extern __shared__ memory, but the launch gives it 0 bytes: add `shared` to the launch";
  }
  return (now.is_write ? "writes " : "reads ") + element(*nearest, address, bytes) + ", which has " +
         count_of(static_cast<int64_t>(nearest->end - nearest->begin), "byte");
}

std::string Memory::outside(uintptr_t address, size_t bytes, bool is_write) const {
  const std::string verb = is_write ? "writes " : "reads ";
  if (address < 4096) return verb + "through a null pointer";
  const auto distance = [&](const Region &region) {
    return address < region.begin ? region.begin - address : address - std::min(region.end - 1, address);
  };
  const auto nearest = std::min_element(regions_.begin(), regions_.end(),
                                        [&](const Region &a, const Region &b) { return distance(a) < distance(b); });
  if (nearest == regions_.end() || distance(*nearest) > (size_t{1} << 30)) {
    return verb + count_of(static_cast<int64_t>(bytes), "byte") + " at an address that belongs to no argument";
  }
  const int size = std::max(kernel_.parameters[nearest->parameter].element_bytes, 1);
  return verb + element(*nearest, address) + ", but " + parameter_name(nearest->parameter) + " has " +
         count_of(static_cast<int64_t>(nearest->end - nearest->begin) / size, "element");
}

}  // namespace gpt2::emulator
