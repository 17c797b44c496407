// Checks every access of a kernel: bounds of its tensors and shared arrays, reads of uninitialized shared memory, and
// races. With these checks blocks run one after the other, so nothing here is locked.
//
// A race is found by order, not by chance: two accesses of two threads to the same bytes, at least one a write, not
// both atomic, and unordered. The race is only a warning if one access is a plain read and the other atomic, as in
// loops around atomicCAS, or if both write the same value. Two accesses are ordered by __syncthreads in a block; by
// __syncwarp between its lanes; and between any two threads by a __threadfence and an atomic operation of the first
// thread (or of its block), then an atomic operation of the second (or of its block), as where the last block to finish
// adds the sums of all. An asynchronous copy writes at any moment until its thread waits.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../emulator/interface.h"

namespace gpt2::emulator {

struct Access {
  uint32_t block = 0;  // index + 1; 0: no access
  uint32_t epoch = 0;  // barriers of the block before the access
  uint32_t clock = 0;  // the lane's clock (`clocks_`)
  uint32_t time = 0;   // releases by all threads before the access
  const void *caller = nullptr;
  uint16_t thread = 0;
  uint8_t bytes = 0;  // a bit for each byte of the cell
  bool is_atomic = false, is_write = false;
};

// The last write of a cell, and two unordered reads after it.
struct Cell {
  Access write, read, other_read;
};

// A variable of the module's file: __device__, __constant__, or a table of constants.
struct Variable {
  std::string name;
  uintptr_t begin, end;
  bool is_constant;  // no kernel may write the variable
};

// The variables of the module's file, which is loaded at `base`.
std::vector<Variable> variables_of(const std::string &path, uintptr_t base);
std::string demangled(const char *name);

// A tensor, a variable of the module, or memory that malloc returned.
struct Region {
  uintptr_t begin, end;
  int parameter;  // the index of a tensor's parameter; otherwise -1
  // Bytes of a cell: at most those of an element, so that threads may write neighbouring elements.
  unsigned cell_bytes;
  // NULL for a constant. The system allocates pages of cells when they are touched.
  Cell *cells;
  const std::string *name;
};

// A pointer parameter, and the bytes that may be accessed from its address on.
struct Reach {
  uintptr_t begin;
  int64_t bytes;
  int parameter, element_bytes;
};

// A read of shared memory that no thread had written; a race if another thread writes it before the next barrier.
struct Unwritten {
  std::string text;
  const void *caller = nullptr;
  unsigned thread = 0;
};

// Asynchronous copies that a thread has not waited for, and the number of groups that it has committed.
struct Copies {
  struct Copy {
    uintptr_t to;
    size_t bytes, group;
    const void *caller;
  };
  std::vector<Copy> pending;
  size_t groups = 0;
};

// The fault of an access; without one the text is empty. `other` is the caller of the access of a race, or NULL.
struct Fault {
  std::string text;
  const void *caller = nullptr, *other = nullptr;
};

// A write to bytes that another thread wrote, and their old values: a race, unless the values stay the same.
struct Suspect {
  uintptr_t address = 0;
  Access before, now;
  std::vector<char> bytes;
};

// Blocks that a module's kernels got from malloc, by address. They outlive a launch.
struct Heap {
  ~Heap();
  std::map<uintptr_t, size_t> blocks;
  size_t used = 0;
};

class Memory {
 public:
  Memory(const gpt2_emulator::Kernel &kernel, const std::vector<Reach> &reaches, const std::vector<Variable> &variables,
         const void *module_base, Heap &heap);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  // Memory that a thread may use without checks: the stacks.
  void set_stacks(const void *begin, const void *end);
  void begin_block(unsigned block, unsigned threads, const char *shared, size_t bytes);
  void declare_shared(const void *memory, size_t bytes, const std::string &names);

  void barrier() { epoch_++; }
  void order_warp(unsigned first, unsigned mask);
  void fence(unsigned thread);
  void atomic(unsigned thread);
  void begin_copy(uintptr_t to, size_t bytes, unsigned thread, const void *caller);
  void commit(unsigned thread) { copies_[thread].groups++; }
  // Ends the copies of all groups but the last `prior`.
  void end_copies(unsigned thread, size_t prior, const void *caller);
  const Unwritten &unwritten() const { return unwritten_; }
  Fault access(uintptr_t address, size_t bytes, unsigned thread, bool is_write, bool is_atomic, const void *caller);
  // Called after the running thread may have written: a fault if the write changed the bytes of a Suspect.
  Fault resolve();
  bool is_resolved() const { return suspect_.bytes.empty(); }
  void *allocate(size_t bytes);
  // False: malloc did not return that address, or it was freed.
  bool release(uintptr_t address);
  // One warning for each pair of callers, with the text of the first, in the order of occurrence.
  std::vector<Fault> warnings;

 private:
  struct Shared {
    uintptr_t begin, end;
    std::string names;
  };
  // The times (`time_`) of the last release, a fence and then an atomic operation, and of the last atomic operation.
  struct Clock {
    uint32_t released = 0, acquired = 0;
    bool is_fenced = false;
  };

  bool is_ordered(const Access &before, const Access &now) const;
  Fault race(Cell *cells, uintptr_t offset, unsigned cell_bytes, size_t bytes, uintptr_t address, Access now);
  std::string raced(const Access &before, const Access &now, uintptr_t address, size_t bytes) const;
  void warn(const Access &before, const Access &now, uintptr_t address, size_t bytes, const char *why);
  Fault in_shared(uintptr_t address, size_t bytes, const Access &now);
  Fault pending(uintptr_t address, size_t bytes, const Access &now) const;
  void insert(uintptr_t begin, size_t bytes, const std::string &name, bool is_constant);
  const Region *region_at(uintptr_t address);
  Fault outside(uintptr_t address, size_t bytes, const Access &now) const;
  std::string place_of(uintptr_t address, size_t bytes) const;
  std::string element(const Region &region, uintptr_t address, size_t bytes) const;
  static std::string element(uintptr_t begin, const std::string &name, uintptr_t address, size_t bytes);

  const gpt2_emulator::Kernel &kernel_;
  const void *module_base_;
  Heap &heap_;
  std::vector<void *> freed_;
  Suspect suspect_;
  std::set<std::pair<const void *, const void *>> warned_;
  Unwritten unwritten_;
  std::vector<std::string> names_;
  std::vector<Region> regions_;  // in the order of addresses
  size_t last_region_ = 0;
  uintptr_t stacks_begin_ = 0, stacks_end_ = 0;
  // State of the running block.
  unsigned block_ = 0;
  uint32_t epoch_ = 0;
  uintptr_t shared_begin_ = 0, shared_end_ = 0;
  std::vector<Shared> shared_;
  std::vector<Cell> shared_cells_;
  std::vector<uint8_t> written_;
  std::vector<Copies> copies_;  // by thread
  std::vector<uint16_t> copying_;  // by byte of shared memory: the thread whose copy is pending, + 1
  size_t pending_ = 0;
  std::vector<uint32_t> clocks_;  // [threads, 32]: vector clocks; the last clock that a thread knows of each lane
  std::vector<Clock> threads_;
  // State of all blocks.
  std::vector<Clock> blocks_;
  uint32_t time_ = 0;
};

}  // namespace gpt2::emulator
