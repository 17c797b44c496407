// The table of memory that kernels may access, with the shadow of its bytes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../../emulator/interface.h"

namespace gpt2::emulator {

// Four bytes of memory have four words of shadow (memory.h): 8 bytes a byte. The system allocates a page when it is
// touched.
class Shadow {
 public:
  Shadow() = default;
  ~Shadow() { clear(); }
  Shadow(const Shadow &) = delete;
  Shadow &operator=(const Shadow &) = delete;

  // To find the words of an address by `words_at`.
  uintptr_t words(uintptr_t begin, size_t bytes);
  void clear();
  bool is_there() const { return memory_ != nullptr; }
  uint64_t *begin() const { return memory_; }
  uint64_t *end() const { return memory_ + bytes_ / sizeof *memory_; }

 private:
  uint64_t *memory_ = nullptr;
  size_t bytes_ = 0;
};

// The four words of the four bytes at address / 4 * 4.
inline uint64_t *words_at(uintptr_t words, uintptr_t address) {
  return reinterpret_cast<uint64_t *>(words + (address & ~uintptr_t{3}) * sizeof(uint64_t));
}

struct Region {
  gpt2_emulator::Allocation is;
  std::string name;
  // A kernel's malloc, of this heap.
  const void *heap = nullptr;
  // Every byte was written.
  bool is_written = true;
  Shadow shadow;
  // Hashes of the pages, the regions that words in them may point to, and the value of Table::launches when they were found; 0: the
  // host has written since.
  std::vector<uint64_t> hashes;
  std::set<uintptr_t> targets;
  uint64_t hashed = 0;
};

struct Table {
  std::mutex mutex;
  std::map<uintptr_t, Region> live;
  // The last freed regions; their addresses are not used again.
  std::map<uintptr_t, Region> freed;
  // The live bytes of cudaMalloc.
  size_t device_bytes = 0;
  // Launches that ran. Each may have changed all memory.
  uint64_t launches = 1;

  Region &insert(uintptr_t begin, size_t bytes, gpt2_emulator::Kind kind, int element_bytes, const std::string &name,
                 const void *caller);
  // The live region that contains the address, or the freed one, or the first of both; NULL without one.
  Region *at(uintptr_t address);
  Region *freed_at(uintptr_t address);
  Region *find(uintptr_t address);
};
Table &table();
// The memory that holds all allocations of device memory, or all others: its used part.
gpt2_emulator::Watch arena_of(bool is_device);
// The memory around an address that is closed to host code: all of cudaMalloc, or the program's __device__ or __constant__ variables.
// Empty if host code may access the address.
gpt2_emulator::Watch closed_to_host(uintptr_t address);
// The pages of these variables. Never destroyed: host code accesses variables at its end, too.
inline std::vector<gpt2_emulator::Watch> &variable_pages() {
  static auto &made = *new std::vector<gpt2_emulator::Watch>;
  return made;
}
// Makes device memory accessible until an OpenMemory ends.
void open_memory();
// Makes the page of freed memory of the host accessible; false if the address is not in such memory.
bool open_freed(uintptr_t address);
inline bool is_in(const gpt2_emulator::Watch &range, uintptr_t address) { return address - range.begin < range.bytes; }

struct LockedTable {
  Table *operator->() const { return &table(); }

 private:
  const std::lock_guard<std::mutex> lock_{table().mutex};
};

// The number of live bytes that a kernel's malloc has, and those kernels share; freed with it.
struct Heap {
  ~Heap();
  size_t used = 0;
};

// Enters the variables of the loaded file that contains the code: of the device, of the host, and tables of constants, which no
// kernel may write. Returns their addresses.
std::vector<const void *> enter_variables(const void *code);
std::string demangled(const char *name);

}  // namespace gpt2::emulator
