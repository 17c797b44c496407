#include "memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "block.h"

namespace gpt2::emulator {

namespace {

// The cell size of memory whose element type is unknown.
constexpr unsigned shared_cell_bytes = 2;
// Bytes after every variable of a module (src/ops/kernels/emulated.ts) and every block from malloc, so that an access
// past the end lies in no region.
constexpr size_t gap = 64;
// The default size of the heap of malloc on a GPU (cudaLimitMallocHeapSize).
constexpr size_t heap_bytes = 8 << 20;
const std::string from_malloc = "memory from malloc";

bool is_before(uintptr_t address, const Region &region) { return address < region.begin; }

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

Heap::~Heap() {
  for (const auto &[address, bytes] : blocks) std::free(reinterpret_cast<void *>(address));
}

Memory::Memory(const gpt2_emulator::Kernel &kernel, const std::vector<Reach> &reaches, const std::vector<Variable> &variables,
               const void *module_base, Heap &heap)
    : kernel_(kernel), module_base_(module_base), heap_(heap), names_(split(kernel.parameter_names)) {
  names_.resize(static_cast<size_t>(kernel.parameter_count), "an argument");
  std::vector<Reach> sorted = reaches;
  std::sort(sorted.begin(), sorted.end(), [](const Reach &a, const Reach &b) { return a.begin < b.begin; });
  for (const Reach &reach : sorted) {
    const uintptr_t end = reach.begin + static_cast<uintptr_t>(reach.bytes);
    const unsigned cell_bytes = reach.element_bytes % 4 == 0 ? 4 : reach.element_bytes % 2 == 0 ? 2 : 1;
    // Two arguments may be the same memory.
    if (!regions_.empty() && reach.begin < regions_.back().end) {
      regions_.back().end = std::max(regions_.back().end, end);
      regions_.back().cell_bytes = std::min(regions_.back().cell_bytes, cell_bytes);
      continue;
    }
    regions_.push_back({reach.begin, end, reach.parameter, cell_bytes, nullptr, &names_[static_cast<size_t>(reach.parameter)]});
  }
  for (Region &region : regions_) {
    region.cells = static_cast<Cell *>(std::calloc((region.end - region.begin) / region.cell_bytes + 1, sizeof(Cell)));
    if (!region.cells) throw std::bad_alloc();
  }
  for (const Variable &each : variables) insert(each.begin, each.end - each.begin, each.name, each.is_constant);
  for (const auto &[address, bytes] : heap.blocks) insert(address, bytes, from_malloc, false);
}

void Memory::insert(uintptr_t begin, size_t bytes, const std::string &name, bool is_constant) {
  auto *cells = is_constant ? nullptr : static_cast<Cell *>(std::calloc(bytes / shared_cell_bytes + 1, sizeof(Cell)));
  if (!cells && !is_constant) throw std::bad_alloc();
  const Region made{begin, begin + bytes, -1, shared_cell_bytes, cells, &name};
  regions_.insert(std::upper_bound(regions_.begin(), regions_.end(), begin, is_before), made);
}

Memory::~Memory() {
  for (const Region &region : regions_) std::free(region.cells);
  for (void *memory : freed_) std::free(memory);
}

void *Memory::allocate(size_t bytes) {
  if (bytes > heap_bytes - heap_.used) return nullptr;
  void *made = std::malloc(bytes + gap);
  if (!made) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(made);
  heap_.blocks[address] = bytes;
  heap_.used += bytes;
  insert(address, bytes, from_malloc, false);
  return made;
}

bool Memory::release(uintptr_t address) {
  const auto block = heap_.blocks.find(address);
  if (block == heap_.blocks.end()) return false;
  heap_.used -= block->second;
  heap_.blocks.erase(block);
  const auto region = std::upper_bound(regions_.begin(), regions_.end(), address, is_before) - 1;
  std::free(region->cells);
  regions_.erase(region);
  // The memory is reused only after the block's end, so that an access after free is detected.
  freed_.push_back(reinterpret_cast<void *>(address));
  return true;
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
  suspect_.bytes.clear();
  for (void *memory : freed_) std::free(memory);
  freed_.clear();
  shared_cells_.resize(bytes / shared_cell_bytes);
  written_.assign(bytes, 0);
  threads_.assign(threads, Clock());
  copies_.assign(threads, Copies());
  if (pending_ > 0) copying_.clear();
  copying_.resize(bytes);
  pending_ = 0;
  // Every lane's clock is 1, which the other lanes do not know yet.
  clocks_.assign(static_cast<size_t>(threads) * 32, 0);
  for (unsigned thread = 0; thread < threads; thread++) clocks_[thread * 32 + thread % 32] = 1;
}

void Memory::declare_shared(const void *memory, size_t bytes, const std::string &names) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  shared_.push_back({begin, begin + bytes, names + " (shared memory)"});
}

// Each lane learns the clocks that any lane of the mask knows, and its clock advances.
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
  Copies &copies = copies_[thread];
  const auto is_running = [&](const Copies::Copy &copy) { return copy.group + prior >= copies.groups; };
  const auto first = std::stable_partition(copies.pending.begin(), copies.pending.end(), is_running);
  const std::vector<Copies::Copy> ended(first, copies.pending.end());
  copies.pending.erase(first, copies.pending.end());
  pending_ -= ended.size();
  // To other threads, the copies write now. No thread has used their bytes since the copies began.
  for (const Copies::Copy &copy : ended) {
    std::fill_n(copying_.begin() + static_cast<ptrdiff_t>(copy.to - shared_begin_), copy.bytes, uint16_t{0});
    access(copy.to, copy.bytes, thread, true, false, caller);
  }
  suspect_.bytes.clear();
}

// The fault of an access to bytes that an asynchronous copy may still write.
Fault Memory::pending(uintptr_t address, size_t bytes, const Access &now) const {
  const auto first = copying_.begin() + static_cast<ptrdiff_t>(address - shared_begin_);
  const auto found = std::find_if(first, first + static_cast<ptrdiff_t>(bytes), [](uint16_t thread) { return thread > 0; });
  if (found == first + static_cast<ptrdiff_t>(bytes)) return {};
  const unsigned thread = *found - 1u;
  const uintptr_t at = shared_begin_ + static_cast<uintptr_t>(found - copying_.begin());
  const void *other = nullptr;
  for (const Copies::Copy &copy : copies_[thread].pending) {
    if (copy.to <= at && at < copy.to + copy.bytes) other = copy.caller;
  }
  return {std::string("races: it ") + (now.is_write ? "writes " : "reads ") + place_of(address, bytes) + ", but " +
              (thread == now.thread ? "it" : "thread " + std::to_string(thread)) + " has not waited for its asynchronous copy there",
          now.caller, other};
}

bool Memory::is_ordered(const Access &before, const Access &now) const {
  if (before.block != now.block) {
    return blocks_[before.block].released > before.time && blocks_[now.block].acquired > before.time;
  }
  if (before.thread == now.thread || before.epoch < now.epoch) return true;
  if (before.thread / 32 == now.thread / 32 && clocks_[now.thread * 32u + before.thread % 32] >= before.clock) return true;
  return threads_[before.thread].released > before.time && threads_[now.thread].acquired > before.time;
}

// `cells` belong to a region that begins `offset` bytes before the address.
Fault Memory::race(Cell *cells, uintptr_t offset, unsigned cell_bytes, size_t bytes, uintptr_t address, Access now) {
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
      const uintptr_t place = bytes > 16 ? address - offset + at * cell_bytes + first : address;
      if ((before->is_atomic && !now.is_write) || (now.is_atomic && !before->is_write)) {
        warn(*before, now, place, bytes, "right only if an old value does no harm");
      } else if (now.is_write && before->is_write && !now.is_atomic && !before->is_atomic) {
        const char *begin = reinterpret_cast<const char *>(address);
        if (is_resolved()) suspect_ = {address, *before, now, {begin, begin + bytes}};
      } else {
        return {"races: it " + raced(*before, now, place, bytes), now.caller, before->caller};
      }
    }
    if (now.is_write) {
      cell.write = now;
      // Earlier reads are dropped: an access that conflicts with them conflicts with this write or comes after it.
      cell.read = cell.other_read = Access();
    } else if (cell.read.block == 0 || is_ordered(cell.read, now)) {
      cell.read = now;
    } else {
      cell.other_read = now;
    }
  }
  return {};
}

std::string Memory::raced(const Access &before, const Access &now, uintptr_t address, size_t bytes) const {
  const bool is_same_block = before.block == now.block;
  return (now.is_write ? "writes " : "reads ") + place_of(address, bytes) + ", which thread " + std::to_string(before.thread) +
         (is_same_block ? "" : " of block " + std::to_string(before.block - 1)) + (before.is_write ? " wrote" : " read") +
         (is_same_block ? " with no barrier between" : " with nothing that orders blocks");
}

void Memory::warn(const Access &before, const Access &now, uintptr_t address, size_t bytes, const char *why) {
  if (!warned_.emplace(now.caller, before.caller).second) return;
  warnings.push_back({"thread " + std::to_string(now.thread) + " of block " + std::to_string(now.block - 1) + " " +
                          raced(before, now, address, bytes) + ": " + why,
                      now.caller, before.caller});
}

Fault Memory::resolve() {
  const auto [address, before, now, bytes] = std::exchange(suspect_, Suspect());
  if (std::memcmp(bytes.data(), reinterpret_cast<const void *>(address), bytes.size()) == 0) {
    warn(before, now, address, bytes.size(), "right, because it is the same value");
    return {};
  }
  return {"races: it " + raced(before, now, address, bytes.size()), now.caller, before.caller};
}

// Names the address as an element as large as the access.
std::string Memory::element(uintptr_t begin, const std::string &name, uintptr_t address, size_t bytes) {
  const auto at = static_cast<int64_t>(address) - static_cast<int64_t>(begin), size = static_cast<int64_t>(bytes);
  return (at % size == 0 && size <= 16 ? "element " + std::to_string(at / size) : "byte " + std::to_string(at)) + " of " + name;
}

std::string Memory::element(const Region &region, uintptr_t address, size_t bytes) const {
  if (region.parameter < 0) return element(region.begin, *region.name, address, bytes);
  const int size = std::max(kernel_.parameters[region.parameter].element_bytes, 1);
  return *region.name + "[" +
         std::to_string((static_cast<int64_t>(address) - static_cast<int64_t>(region.begin)) / size) + "]";
}

// Names an address in a shared array, a variable or a tensor.
std::string Memory::place_of(uintptr_t address, size_t bytes) const {
  for (const Shared &each : shared_) {
    if (address >= each.begin && address < each.end) return element(each.begin, each.names, address, bytes);
  }
  return element(*(std::upper_bound(regions_.begin(), regions_.end(), address, is_before) - 1), address, bytes);
}

// The region that contains the address, or NULL.
const Region *Memory::region_at(uintptr_t address) {
  const auto is_in = [&](size_t index) {
    return index < regions_.size() && address >= regions_[index].begin && address < regions_[index].end;
  };
  if (!is_in(last_region_)) {
    const auto next = std::upper_bound(regions_.begin(), regions_.end(), address, is_before);
    last_region_ = static_cast<size_t>(next - regions_.begin()) - 1;
  }
  return is_in(last_region_) ? &regions_[last_region_] : nullptr;
}

Fault Memory::access(uintptr_t address, size_t bytes, unsigned thread, bool is_write, bool is_atomic, const void *caller) {
  if (address >= stacks_begin_ && address < stacks_end_) return {};
  Access now;
  now.block = block_;
  now.epoch = epoch_;
  now.clock = clocks_[thread * 32 + thread % 32];
  now.time = time_;
  now.caller = caller;
  now.thread = static_cast<uint16_t>(thread);
  now.is_atomic = is_atomic;
  now.is_write = is_write;
  if (address >= shared_begin_ && address < shared_end_) return in_shared(address, bytes, now);
  const Region *region = region_at(address);
  if (!region || address + bytes > region->end) return outside(address, bytes, now);
  if (region->cells) return race(region->cells, address - region->begin, region->cell_bytes, bytes, address, now);
  if (!is_write) return {};
  return {"writes " + element(*region, address, bytes) + ", which is constant", caller};
}

Fault Memory::in_shared(uintptr_t address, size_t bytes, const Access &now) {
  const Shared *nearest = nullptr;
  for (const Shared &each : shared_) {
    if (address >= each.begin && address + bytes <= each.end) {
      const uintptr_t offset = address - shared_begin_;
      uint8_t *written = written_.data() + offset;
      if ((!now.is_write || now.is_atomic) && unwritten_.text.empty() &&
          !std::all_of(written, written + bytes, [](uint8_t is) { return is; })) {
        unwritten_ = {"reads " + place_of(address, bytes) + ", which no thread has written", now.caller, now.thread};
      }
      if (now.is_write) std::fill_n(written, bytes, uint8_t{1});
      // Cells that an earlier block wrote do not concern this block.
      for (uintptr_t at = offset / shared_cell_bytes; at <= (offset + bytes - 1) / shared_cell_bytes; at++) {
        Cell &cell = shared_cells_[at];
        if (cell.write.block != block_) cell.write = Access();
        if (cell.read.block != block_) cell.read = Access();
        if (cell.other_read.block != block_) cell.other_read = Access();
      }
      if (pending_ > 0) {
        if (Fault wrong = pending(address, bytes, now); !wrong.text.empty()) return wrong;
      }
      return race(shared_cells_.data(), offset, shared_cell_bytes, bytes, address, now);
    }
    // The last array before the address.
    if (!nearest || (each.begin <= address && (nearest->begin > address || each.begin > nearest->begin))) nearest = &each;
  }
  if (nearest->begin == nearest->end) {
    return {"uses extern __shared__ memory, but the launch gives it 0 bytes: add `shared` to the launch", now.caller};
  }
  const uintptr_t wrong = address < nearest->end ? nearest->end : address;
  return {(now.is_write ? "writes " : "reads ") + element(nearest->begin, nearest->names, wrong, bytes) + ", which has " +
              count_of(static_cast<int64_t>(nearest->end - nearest->begin), "byte"),
          now.caller};
}

Fault Memory::outside(uintptr_t address, size_t bytes, const Access &now) const {
  const std::string verb = now.is_write ? "writes " : "reads ";
  if (address < 4096) return {verb + "through a null pointer", now.caller};
  const auto distance = [&](const Region &region) {
    return address < region.begin ? region.begin - address : address - std::min(region.end - 1, address);
  };
  const auto nearest = std::min_element(regions_.begin(), regions_.end(),
                                        [&](const Region &a, const Region &b) { return distance(a) < distance(b); });
  const size_t away = nearest == regions_.end() ? SIZE_MAX : distance(*nearest);
  Dl_info info{};
  // A constant without a name.
  if (!now.is_write && away > gap && dladdr(reinterpret_cast<void *>(address), &info) && info.dli_fbase == module_base_) return {};
  if (away > size_t{1} << 30) {
    return {verb + count_of(static_cast<int64_t>(bytes), "byte") + " at an address that belongs to no argument", now.caller};
  }
  const int64_t size = nearest->parameter < 0 ? 1 : std::max(kernel_.parameters[nearest->parameter].element_bytes, 1);
  const int64_t count = static_cast<int64_t>(nearest->end - nearest->begin) / size;
  const uintptr_t wrong = away == 0 ? nearest->end : address;
  return {verb + element(*nearest, wrong, bytes) + (nearest->parameter < 0 ? ", which" : ", but " + *nearest->name) + " has " +
              count_of(count, nearest->parameter < 0 ? "byte" : "element"),
          now.caller};
}

}  // namespace gpt2::emulator
