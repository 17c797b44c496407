// The defects of accesses: which of two accesses without order are a race, and the words of every report about memory (memory.h).
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "block.h"
#include "memory.h"

namespace gpt2::emulator {

namespace {

std::string count_of(size_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

Place place_of(const Region &region) { return {region.is.begin, region.is.bytes, region.is.element_bytes, region.name}; }

// Names an address in reports: "out[3]" by the element type, or "element 3 of out" by the size of the access if the type is unknown.
std::string element(const Place &of, uintptr_t address, size_t bytes) {
  const auto at = static_cast<int64_t>(address) - static_cast<int64_t>(of.begin), size = static_cast<int64_t>(bytes);
  if (of.element_bytes > 0) return of.name + "[" + std::to_string(at / of.element_bytes) + "]";
  return (at % size == 0 && size <= 16 ? "element " + std::to_string(at / size) : "byte " + std::to_string(at)) + " of " + of.name;
}

}  // namespace

void Memory::conflict(uint64_t before, uint64_t now, uintptr_t address, size_t bytes) {
  // Report only the race, if it explains why shared memory was read before any write.
  if (unwritten_at_ / 4 == address / 4) unwritten_.text.clear();
  const bool is_read_of_atomic = ((before & is_atomic_bit) && !(now & is_write_bit)) || ((now & is_atomic_bit) && !(before & is_write_bit));
  if (is_read_of_atomic) return add_race(before, now, address, bytes, ": right only if an old value does no harm");
  if ((now & before & is_write_bit) && !((now | before) & is_atomic_bit)) {
    const char *begin = reinterpret_cast<const char *>(address);
    if (!has_suspect()) suspect_ = {address, before, now, {begin, begin + bytes}};
    return;
  }
  // This is a race even if the write changes no value.
  suspect_ = Suspect();
  add_race(before, now, address, bytes, nullptr);
}

// Finds after which of two racing accesses a __syncthreads is missing. If the running thread ran the other access's code since the last
// barrier, that code comes first. Else, if that code did not run before the barrier, no loop has repeated: the earlier line comes first.
Defect::Barrier Memory::barrier_of(uint64_t before, uint64_t now, uintptr_t address) const {
  if (!is_shared(address)) return Defect::Barrier::unknown;
  const Site &other = sites_[before & 0xffff];
  if (other.last >= phase_first_ && !((other.last ^ now) & thread_bits)) return Defect::Barrier::after_other;
  return other.first >= phase_first_ ? Defect::Barrier::after_earlier : Defect::Barrier::after_this;
}

void Memory::resolve() {
  const auto [address, before, now, bytes] = std::exchange(suspect_, Suspect());
  const bool is_same = std::memcmp(bytes.data(), reinterpret_cast<const void *>(address), bytes.size()) == 0;
  add_race(before, now, address, bytes.size(), is_same ? ": right, because it is the same value" : nullptr);
}

// Reports a race of two accesses; only as a warning if `why` says why the race does no harm.
void Memory::add_race(uint64_t before, uint64_t now, uintptr_t address, size_t bytes, const char *why) {
  const Defect::Kind kind = why ? Defect::Kind::warning : Defect::Kind::race;
  const void *caller = caller_of(now), *other = caller_of(before);
  if (defects_->count(kind, caller, other)) return;
  const bool is_same_block = before >= block_first_;
  const std::string text = (now & is_write_bit ? "writes " : "reads ") + name_at(address, bytes) + ", which thread " +
                           std::to_string(thread_of(before)) +
                           (is_same_block ? "" : " of block " + std::to_string(block_of(before >> moment_shift))) +
                           (before & is_write_bit ? " wrote" : " read") +
                           (is_same_block ? " with no barrier between" : " with nothing that orders blocks");
  defects_->add({kind, name_of_thread(thread_of(now)) + (why ? " " : " races: it ") + text + (why ? why : ""), caller, other,
                 why ? Defect::Barrier::unknown : barrier_of(before, now, address)});
}

// Reports a read of bytes that nobody has written. For shared memory the report waits until the next barrier: if another thread writes
// there until then, the read is a race.
void Memory::unwritten(uint64_t now, uintptr_t address, size_t bytes) {
  const bool is_in_block = is_shared(address);
  if (is_in_block ? !unwritten_.text.empty() : defects_->count(Defect::Kind::unwritten, caller_of(now))) return;
  Defect defect{Defect::Kind::unwritten, "", caller_of(now)};
  defect.text = name_of_thread(thread_of(now)) + " reads " + name_at(address, bytes) + ", which " +
                (is_in_block ? "no thread" : "nobody") + " has written";
  if (!is_in_block) return void(defects_->add(std::move(defect)));
  unwritten_ = std::move(defect);
  unwritten_at_ = address;
}

void Memory::report_unwritten() {
  if (!unwritten_.text.empty()) defects_->add(std::exchange(unwritten_, Defect()));
}

std::string Memory::name_of_thread(unsigned thread) const {
  return gpt2::emulator::name_of(thread, block_, launch_->threads, launch_->blocks);
}

// The memory by which an address can be named: the shared arrays, or all regions. The caller locks the table if the table can change.
std::vector<Place> Memory::places(uintptr_t address) const {
  if (is_shared(address)) return shared_;
  std::vector<Place> all;
  for (const auto &[begin, region] : table().live) all.push_back(place_of(region));
  return all;
}

std::string Memory::name_at(uintptr_t address, size_t bytes) const {
  for (const Place &each : places(address)) {
    if (address - each.begin < each.bytes) return element(each, address, bytes);
  }
  return "memory";
}

bool Memory::refuse(std::string text, const void *caller) {
  fatal = {Defect::Kind::bad_access, std::move(text), caller};
  return false;
}

// Finds the fault of an access outside of all regions or past the end of one. Returns true if the access is allowed nonetheless.
bool Memory::outside(uintptr_t address, size_t bytes, bool is_write, const void *caller) {
  const std::string verb = is_write ? "writes " : "reads ";
  if (address < 4096) return refuse(verb + "through a null pointer", caller);
  const bool is_program = launch_->watch == &gpt2_emulator::program_watch;
  if (const Region *freed = table().freed_at(address)) return refuse(verb + element(place_of(*freed), address, bytes) + ", which has been freed", caller);
  // An address in shared memory is named by the last array before it, any other by the nearest region.
  const auto distance = [&](const Place &each) {
    if (address >= each.begin) return address - std::min(each.begin + each.bytes - (each.bytes > 0), address);
    return is_shared(address) ? SIZE_MAX : each.begin - address;
  };
  const std::vector<Place> all = places(address);
  const auto nearest = std::min_element(all.begin(), all.end(), [&](const Place &a, const Place &b) { return distance(a) < distance(b); });
  const size_t away = nearest == all.end() ? SIZE_MAX : distance(*nearest);
  if (is_shared(address) && nearest->bytes == 0) {
    return refuse("uses extern __shared__ memory, but the launch gives it 0 bytes: add `shared` to the launch", caller);
  }
  // Allow reads of unnamed constants, which lie in the loaded file of the kernel.
  Dl_info there{}, code{};
  if (!is_write && away > gap_bytes && dladdr(reinterpret_cast<void *>(address), &there) &&
      dladdr(reinterpret_cast<void *>(launch_->here), &code) && there.dli_fbase == code.dli_fbase) {
    return true;
  }
  if (away > size_t{1} << (is_program ? 20 : 30)) {
    unsigned char is_resident;
    if (is_program && mincore(reinterpret_cast<void *>(address / 4096 * 4096), 1, &is_resident) == 0) {
      return refuse(verb + "memory of the host: a GPU reaches only memory of cudaMalloc, cudaMallocManaged and cudaMallocHost", caller);
    }
    return refuse(verb + count_of(bytes, "byte") + " at an address that belongs to no " + (is_program ? "allocation" : "argument"), caller);
  }
  const auto element_bytes = static_cast<size_t>(nearest->element_bytes);
  return refuse(verb + element(*nearest, away == 0 ? nearest->begin + nearest->bytes : address, bytes) +
                    (element_bytes > 0 ? ", but " + nearest->name + " has " + count_of(nearest->bytes / element_bytes, "element")
                                       : ", which has " + count_of(nearest->bytes, "byte")),
                caller);
}

}  // namespace gpt2::emulator
