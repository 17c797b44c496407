// The table of regions of memory (allocations, variables) that kernels may access. Each region has a shadow for its checks.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../../emulator/interface.h"

namespace gpt2::emulator {

// The one object of a type. Never destroyed, because destructors of the program may call the CUDA runtime, and kernels may be
// unloaded later than static objects.
template <class T>
T &only() {
  static T &made = *new T;
  return made;
}

// The shadow of a range of memory: four words of 64 bits for every four bytes (memory.h), 8 bytes for each byte. The system
// allocates a page when it is touched.
class Shadow {
 public:
  Shadow() = default;
  ~Shadow() { clear(); }
  Shadow(const Shadow &) = delete;
  Shadow &operator=(const Shadow &) = delete;

  // Allocates the shadow of the range at the first call. Returns the base from which `words_at` finds the words of an address.
  uintptr_t words(uintptr_t begin, size_t bytes);
  void clear();
  bool is_there() const { return memory_ != nullptr; }
  uint64_t *begin() const { return memory_; }
  uint64_t *end() const { return memory_ + bytes_ / sizeof *memory_; }

 private:
  uint64_t *memory_ = nullptr;
  size_t bytes_ = 0;
};

// The four shadow words of the aligned four bytes that contain the address.
inline uint64_t *words_at(uintptr_t words, uintptr_t address) {
  return reinterpret_cast<uint64_t *>(words + (address & ~uintptr_t{3}) * sizeof(uint64_t));
}

struct Region {
  gpt2_emulator::Allocation is;
  std::string name;
  // The heap of the kernel's malloc that made the region; else NULL.
  const void *heap = nullptr;
  // True: every byte counts as written, without a look at the shadow.
  bool is_written = true;
  Shadow shadow;
  // `hashes`: hashes of the pages; `targets`: the regions that words in the pages may point to; `hashed`: the value of
  // Table::launches when `hashes` and `targets` were computed, 0 if the host has written since.
  std::vector<uint64_t> hashes;
  std::set<uintptr_t> targets;
  uint64_t hashed = 0;
};

struct Table {
  std::mutex mutex;
  std::map<uintptr_t, Region> live;
  // The last freed regions; their addresses are not used again.
  std::map<uintptr_t, Region> freed;
  // Bytes of cudaMalloc that are not freed.
  size_t device_bytes = 0;
  // 1 + the number of launches that ran, each of which may have changed all memory.
  uint64_t launches = 1;

  Region &insert(uintptr_t begin, size_t bytes, gpt2_emulator::Kind kind, int element_bytes, const std::string &name,
                 const void *caller);
  // The region that contains the address, or NULL: `at` finds live ones, `freed_at` freed ones, `find` live ones first.
  Region *at(uintptr_t address);
  Region *freed_at(uintptr_t address);
  Region *find(uintptr_t address);
};
inline Table &table() { return only<Table>(); }
// The used address range of the arena of device memory, or of the arena of managed and pinned memory.
gpt2_emulator::Watch arena_of(bool is_device);
// The memory around the address that host code must not access: all memory of cudaMalloc, or pages of __device__ or __constant__
// variables. Empty if host code may access the address.
gpt2_emulator::Watch closed_to_host(uintptr_t address);
// Pages of __device__ and __constant__ variables.
inline std::vector<gpt2_emulator::Watch> &variable_pages() { return only<std::vector<gpt2_emulator::Watch>>(); }
// Makes device memory accessible to host code until the next OpenMemory object is destroyed.
void open_memory();
// Makes a page of freed managed or pinned memory accessible again; false if the address is not in such memory.
bool open_freed(uintptr_t address);
inline bool is_in(const gpt2_emulator::Watch &range, uintptr_t address) { return address - range.begin < range.bytes; }
inline bool is_in_arena(uintptr_t address) { return is_in(arena_of(true), address) || is_in(arena_of(false), address); }

struct LockedTable {
  Table *operator->() const { return &table(); }

 private:
  const std::lock_guard<std::mutex> lock_{table().mutex};
};

// The heap of malloc in kernels, shared by the kernels of a module or program. `used`: live bytes. A Heap frees its memory.
struct Heap {
  ~Heap();
  size_t used = 0;
};

// Adds to the table the variables of the loaded file that contains `code`: device variables, host variables, and constants, which no
// kernel may write. Returns their addresses.
std::vector<const void *> enter_variables(const void *code);
std::string demangled(const char *name);

}  // namespace gpt2::emulator
