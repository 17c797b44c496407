// Checks every access of a kernel: bounds of allocations and shared arrays, reads of memory that nobody wrote, and races.
// Checked blocks run one after the other on one thread, so nothing here is locked.
//
// Races are detected by order, not by timing. A race is two accesses of two threads to the same bytes that nothing orders, at least one
// a write, not both atomic. A race is only a warning if one access is a plain read and the other atomic, as in loops around atomicCAS, or
// if both write the same value. Accesses are ordered by __syncthreads in a block; by __syncwarp between its lanes; and between any two
// threads if the first (or its block) runs __threadfence and then an atomic operation, and later the second (or its block) runs an
// atomic operation. Kernels in which the last block adds all sums use this order. An asynchronous copy may write until its thread waits.
//
// Time is counted in moments. A thread gets a new moment when the emulator switches to it, and when it orders its accesses. Comparing
// moments orders most accesses: an access with a smaller moment than the block's last barrier happened before that barrier.
// Every four bytes of memory have a shadow of four words of 64 bits. Each word holds one access:
//   63..36 moment   35..32 written   31..22 thread   21 atomic   20 write   19..16 bytes   15..0 site
// `bytes` has a bit for each of the four bytes, set if the access includes the byte. `written`, used in the first word only, has a bit
// for each byte that was ever written. `site` is the entry of the accessing code address in a hash table, which also holds the
// region that this code accessed last.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reports.h"
#include "table.h"

namespace gpt2::emulator {

// Bytes after every variable of a module (src/ops/kernels/emulated.ts) and every block from malloc, so that an access
// past the end lies in no region.
constexpr size_t gap_bytes = 64;

// A range of memory that a launch may access, with its name for reports. element_bytes: 0 if the element type is unknown.
struct Place {
  uintptr_t begin;
  size_t bytes;
  int element_bytes;
  std::string name;
};

class Memory {
 public:
  // `found` gets the launch's defects and warnings, in the order of occurrence.
  void begin_launch(const gpt2_emulator::Launch &launch, Heap &heap, Defects &found);
  // `shared`: the shared memory and its bytes; `stacks`: the range of all fibers' stacks; `goes_on`: continues after a grid barrier.
  void begin_block(unsigned block, unsigned threads, std::pair<char *, size_t> shared, std::pair<const char *, const char *> stacks,
                   bool goes_on);
  void declare_shared(const void *memory, size_t bytes, const std::string &names);
  // Orders all earlier accesses before all later ones, at the start of a launch and at a barrier of the grid.
  void order_all() { launch_first_ = (moment_ + 1) << moment_shift; }
  // Gives the thread a new moment (time stamp of its accesses). Called when it begins to run, and when an operation orders its accesses.
  void resume(unsigned thread) {
    if (++moment_ >= most_moments) forget_accesses();
    now_ = moment_ << moment_shift | uint64_t{thread} << thread_shift;
  }
  void barrier() { phase_first_ = (moment_ + 1) << moment_shift; }
  void order_warp(unsigned first, unsigned mask);
  void fence(unsigned thread);
  void atomic(unsigned thread);
  void begin_copy(uintptr_t to, size_t bytes, unsigned thread, const void *caller);
  void commit(unsigned thread) {
    if (!copies_.empty()) copies_[thread].groups++;
  }
  // Completes the thread's asynchronous copies, except those of its last `prior` groups.
  void end_copies(unsigned thread, size_t prior, const void *caller);
  // Checks an access before it happens. Returns false if the launch must fail with `fatal`. All other defects are only reported.
  bool access(uintptr_t address, size_t bytes, bool is_write, bool is_atomic, const void *caller) {
    Site *site = &sites_[reinterpret_cast<uintptr_t>(caller) % site_count];
    const uintptr_t offset = address - site->begin;
    if (__builtin_expect(site->caller != caller || offset >= site->bytes || site->bytes - offset < bytes, false)) {
      site = locate(address, bytes, is_write, caller);
      if (!site) return false;
    }
    if (!site->words) return true;
    const uint64_t now = now_ | (is_write ? is_write_bit : 0) | (is_atomic ? is_atomic_bit : 0) | site->index;
    if (site->last < block_first_) site->first = now;
    site->last = now;
    if (__builtin_expect((address & 3) == 0 && (bytes & 3) == 0 && bytes <= 16 && pending_ == 0, true)) {
      uint64_t *slots = words_at(site->words, address);
      for (const uint64_t *end = slots + bytes; slots < end; slots += 4) {
        if (!check_word(slots, now | all_bytes, *site)) check(slots, now | all_bytes, *site, address, bytes);
      }
      return true;
    }
    return access_bytes(address, bytes, now, *site);
  }
  // Called once the write of a Suspect is in memory: reports a race if the write changed the bytes, else a warning.
  void resolve();
  bool has_suspect() const { return suspect_.address != 0; }
  void add(Defect defect) {
    if (!defects_->count(defect.kind, defect.caller)) defects_->add(std::move(defect));
  }
  // Reports a read of shared memory that no thread had written, if no race explained it.
  void report_unwritten();
  void *allocate(size_t bytes);
  // Frees memory of a kernel's malloc. False: malloc did not return that address, or it is already freed.
  bool release(uintptr_t address);
  void forget_sites() {
    for (const unsigned each : used_sites_) sites_[each].bytes = 0;
  }
  // For each code address of this launch (a site), the start of the region that the code accessed last.
  std::vector<uintptr_t> touched() const;
  std::string name_of_thread(unsigned thread) const;

  // The defect with which the launch must fail. Its text lacks the name of the thread, which Block::fail adds.
  Defect fatal;
  // `accesses`: checked accesses of the process so far. Beyond `accesses_to_rest`, the running thread lets the others run.
  uint64_t accesses = 0, accesses_to_rest = 0;

 private:
  static constexpr int moment_shift = 36, written_shift = 32, thread_shift = 22, bytes_shift = 16;
  static constexpr uint64_t most_moments = uint64_t{1} << (64 - moment_shift);
  static constexpr uint64_t is_atomic_bit = uint64_t{1} << 21, is_write_bit = uint64_t{1} << 20, all_bytes = uint64_t{15} << bytes_shift;
  static constexpr uint64_t written_bits = uint64_t{15} << written_shift, thread_bits = uint64_t{1023} << thread_shift;
  static constexpr unsigned site_count = 1 << 16;

  struct alignas(64) Site {
    const void *caller = nullptr;
    uintptr_t begin = 0;
    size_t bytes = 0;
    uintptr_t words = 0;  // shadow, for words_at; 0: not checked
    const uint64_t *floor = nullptr;  // accesses before this moment do not matter
    bool is_tracked = false;          // reads of unwritten bytes are reported
    unsigned index = 0;
    uint64_t first = 0, last = 0;     // the site's first access in this block, and its last
  };
  // Moments for a thread or a block. `released`: the last release, by a fence and then an atomic operation. `acquired`: the last
  // release by any thread before the last atomic operation of this thread or block.
  struct Clock {
    uint64_t released = 0, acquired = 0;
    bool is_fenced = false;
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
  // A write to bytes that another thread wrote, without an order between the writes. A race if the write changes `bytes`, the old values.
  struct Suspect {
    uintptr_t address = 0;
    uint64_t before = 0, now = 0;
    std::vector<char> bytes;
  };

  // Whether an earlier access in this block is ordered before the current access: the current thread made it, or it was made before the
  // block's last barrier.
  bool is_past(uint64_t before) const {
    return before >= block_first_ && (before < phase_first_ || !((before ^ now_) & thread_bits));
  }
  // Fast path for an access to all four bytes: checks and stores it, or returns false if `check` must decide. On the fast path the words
  // hold the last write (first word) and two reads; a write that conflicts with any read conflicts with one of these.
  bool check_word(uint64_t *slots, uint64_t now, const Site &site) {
    const uint64_t floor = *site.floor, write = slots[0], read = slots[1], other = slots[2];
    if (slots[3] >= floor || (write >= floor && !(is_past(write) && (write & is_write_bit)))) return false;
    if (now & is_write_bit) {
      if ((read >= floor && !is_past(read)) || (other >= floor && !is_past(other))) return false;
      if ((now & is_atomic_bit) && (site.is_tracked || (write >= floor && !(write & is_atomic_bit)))) return false;
      slots[0] = now | (site.is_tracked ? written_bits : write & written_bits);
      return true;
    }
    if (site.is_tracked && (write & written_bits) != written_bits) return false;
    if ((read >= floor && (read & is_write_bit)) || (other >= floor && (other & is_write_bit))) return false;
    slots[read < floor || is_past(read) ? 1 : 2] = now;
    return true;
  }
  Site *site_of(const void *caller);
  Site *locate(uintptr_t address, size_t bytes, bool is_write, const void *caller);
  bool access_bytes(uintptr_t address, size_t bytes, uint64_t now, const Site &site);
  void check(uint64_t *slots, uint64_t now, const Site &site, uintptr_t address, size_t bytes);
  bool is_ordered(uint64_t before, uint64_t now) const;
  void conflict(uint64_t before, uint64_t now, uintptr_t address, size_t bytes);
  void unwritten(uint64_t now, uintptr_t address, size_t bytes);
  void add_race(uint64_t before, uint64_t now, uintptr_t address, size_t bytes, const char *why);
  bool is_pending(uintptr_t address, size_t bytes, uint64_t now);
  std::vector<Place> places(uintptr_t address) const;
  bool outside(uintptr_t address, size_t bytes, bool is_write, const void *caller);
  bool refuse(std::string text, const void *caller);
  std::string name_at(uintptr_t address, size_t bytes) const;
  uint64_t block_of(uint64_t moment) const;
  const void *caller_of(uint64_t access) const { return sites_[access & 0xffff].caller; }
  static unsigned thread_of(uint64_t access) { return access >> thread_shift & 1023; }
  bool is_shared(uintptr_t address) const { return address - shared_begin_ < shared_bytes_; }
  // Where a __syncthreads is missing to order the two accesses.
  Defect::Barrier barrier_of(uint64_t before, uint64_t now, uintptr_t address) const;
  void forget_accesses();
  void clear_shared();

  std::vector<Site> sites_ = std::vector<Site>(site_count);
  std::vector<unsigned> used_sites_;
  const gpt2_emulator::Launch *launch_ = nullptr;
  Heap *heap_ = nullptr;
  Defects *defects_ = nullptr;
  uint64_t moment_ = 1, now_ = 0;
  // A shadow word below one of these is older than the launch (or its last grid barrier), the block, or the block's last barrier.
  uint64_t launch_first_ = 0, block_first_ = 0, phase_first_ = 0;
  std::vector<void *> freed_;
  Suspect suspect_;
  // A read of shared memory that no thread had written; a race if another thread writes it before the next barrier.
  Defect unwritten_;
  uintptr_t unwritten_at_ = 0;
  // State of the running block.
  unsigned block_ = 0;
  uintptr_t stacks_begin_ = 0, stacks_bytes_ = 0, shared_begin_ = 0, shared_bytes_ = 0;
  std::vector<Place> shared_;
  // The shadow of the first `used` bytes of shared memory must be cleared for the next block.
  struct SharedShadow : Shadow {
    size_t used = 0;
  };
  SharedShadow *shared_shadow_ = nullptr;
  std::map<uintptr_t, SharedShadow> shared_shadows_;  // by block object
  std::vector<Copies> copies_;     // by thread
  std::vector<uint16_t> copying_;  // by byte of shared memory: the thread whose copy is pending, + 1
  size_t pending_ = 0;
  // [threads, 32]: for each lane of the thread's warp, the moment before which the lane's accesses are ordered before the thread's.
  // Empty before the block's first __syncwarp.
  std::vector<uint64_t> clocks_;
  std::vector<Clock> threads_;
  // State over all blocks: the first moment of each block that ran, and releases by block.
  std::vector<std::pair<uint64_t, unsigned>> begun_;
  std::map<unsigned, Clock> blocks_;
  Clock *block_clock_ = nullptr;
  uint64_t last_release_ = 0;
};

inline Memory &memory() { return only<Memory>(); }

}  // namespace gpt2::emulator
