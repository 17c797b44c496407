// The interface of the emulator (cpu/emulator), a static library that the CPU library and programs link. Compiled kernels
// come in two ways:
//   - a file of kernels (kernel.h) is a shared library that exports only `gpt2_emulated_module`; the CPU library loads it;
//   - a program, compiled with GPT2_PROGRAM, links the emulator, and launches by `launch` below.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt2_emulator {

constexpr int interface_version = 8;

// The sizes of a grid or block, or a position in it.
struct Sizes {
  unsigned x, y, z;

  uint64_t count() const { return uint64_t{x} * y * z; }
  Sizes position_of(unsigned index) const { return {index % x, index / x % y, index / x / y}; }
};

// Addresses of the variables in which a compiled file keeps the running thread's position: threadIdx, blockIdx, blockDim, gridDim.
// `fresh`: how many of the next threads, none of them begun, the kernel's body may run in a loop.
struct Position {
  Sizes *thread, *block, *threads, *blocks;
  unsigned *fresh;
};

// The address range whose accesses the hooks of a compiled file report; each hook tests the range inline. The range is all memory in a
// checked block, empty in an unchecked block, and device memory in host code (which has hooks only in memcpy and the like).
struct Watch {
  uintptr_t begin, bytes;
};

// How a launch ends; also the kinds of defects.
enum class Outcome : uint8_t {
  ok,             // the launch may have had defects of the next three kinds, which are only reported
  warning,
  race,
  unwritten,
  failed_assert,  // cudaErrorAssert
  bad_access,     // cudaErrorIllegalAddress
  misaligned,     // cudaErrorMisalignedAddress
  stuck,          // a barrier that is not reached, an instruction that traps: cudaErrorLaunchFailure
};

// Functions that compiled kernels call. `caller`: the code address after the call in the user's code; reports show its line.
struct Host {
  // The memory of a __shared__ declaration, the same for all threads of the block.
  void *(*shared)(const void *declaration, size_t bytes, size_t alignment, const char *names, const void *caller);
  void *(*dynamic_shared)();
  // __syncthreads; returns the number of threads whose predicate was not 0.
  unsigned (*barrier)(int predicate, const void *caller);
  // A warp operation: waits for the lanes of `mask`. Returns each lane's `value`, and in `lanes` the lanes that have not ended. With
  // `orders_memory` (__syncwarp), also orders the lanes' accesses to memory.
  const uint64_t *(*exchange)(unsigned mask, uint64_t value, bool orders_memory, unsigned *lanes, const void *caller);
  // Reports that the thread reads the value of a lane that has ended, or that the block does not have.
  void (*undefined)(unsigned lane, const void *caller);
  // __activemask: the lanes of the caller's warp that make this call before they wait or end.
  unsigned (*active)();
  // `atomic` is called before an atomic operation, `fence` for __threadfence.
  void (*atomic)(const void *memory, size_t bytes, const void *caller);
  void (*fence)();
  // An asynchronous copy. The copy is done at once, but its bytes of shared memory must not be used before the thread has waited. The
  // last `zeros` bytes become 0, not copied. `commit` ends a group of the thread's copies; `wait` waits for all but the last `prior`.
  void (*copy)(void *to, const void *from, size_t bytes, size_t zeros, const void *caller);
  void (*commit)();
  void (*wait)(size_t prior, const void *caller);
  // Called before a read or a write of a watched address, if the file is compiled with checks.
  void (*access)(const void *memory, size_t bytes, bool is_write, const void *caller);
  // Called before a function's body, if the file is compiled with checks. Fails the launch if the stack is nearly full.
  void (*enter)(const void *caller);
  // `is_kernel`: whether the OS thread runs a kernel, not host code. `allocate`: malloc of a kernel. `release`: free of a kernel; in
  // host code it reports memory of the CUDA runtime, and returns false for other memory.
  bool (*is_kernel)();
  void *(*allocate)(size_t bytes);
  bool (*release)(void *memory, const void *caller);
  // Fails the launch at a line, or at the caller's line if `file` is NULL or a header of the emulator. Does not return.
  void (*fail)(const char *text, const char *file, unsigned line, const void *caller, Outcome outcome);
  // A barrier of the grid, in a cooperative launch.
  void (*grid_barrier)(const void *caller);
  // Called when the kernel prints or reads a clock: repetitions of the launch are then not skipped.
  void (*effect)();
};

struct Parameter {
  const char *mangled_type;
  int offset, bytes;
  int element_bytes;  // bytes of the element that a pointer points to; 0: not a pointer
};

struct Kernel {
  const char *name;
  const char *parameter_names;  // as in the source, separated by commas
  const Parameter *parameters;
  int parameter_count;
  int threads;  // the most threads of a block
  void (*function)();
  void (*call)(void (*function)(), const char *arguments);
};

struct Module {
  int version;  // `interface_version` when the file was compiled; the library refuses any other
  bool has_checks;
  int kernel_count;
  const Kernel *kernels;
  // Returns the addresses of the calling OS thread's position variables.
  Position (*here)();
  Watch *watch;
};

// ---------------------------------------------------------------- for those who link the emulator

// For a program: the functions of the emulator that kernels call, and the range that hooks report.
extern const Host program_host;
extern Watch program_watch;

// Kinds of memory in the process's table. `device`: closed to host code; `tensor`: memory of the CPU library, always counts as written;
// `variable`: a __device__ variable; `host`: a variable that kernels must not access.
enum class Kind : uint8_t { device, managed, pinned, tensor, variable, constant, host };
struct Allocation {
  uintptr_t begin;
  size_t bytes;
  Kind kind;
  bool is_live;         // false: freed, kept for reports of use after free
  int element_bytes;    // for names in reports; 0 if unknown
  const char *name;     // "" if unknown
  const void *caller;   // code address of the allocation
};
// Allocates memory of a kind and adds it to the table; NULL if memory ran out. The memory is cleared, because programs rely on the
// cleared pages that a GPU's driver gives. Freed addresses are not used again. With element_bytes, reports name elements: "d_in[256]".
void *allocate(size_t bytes, Kind kind, int element_bytes, const char *name, const void *caller);
// Frees memory of `allocate`. Returns false, and reports a defect, if `memory` is not the start of a live allocation.
bool release(void *memory, const void *caller);
// While an OpenMemory object lives, host code may access device memory, all or a range. At other times an access raises a signal, which
// is reported. Closing all memory takes 4 ns a page: after too many closings for the `work` (threads) so far, memory stays open.
struct OpenMemory {
  explicit OpenMemory(uint64_t work);
  OpenMemory(const void *begin, size_t bytes);
  ~OpenMemory();
  OpenMemory(const OpenMemory &) = delete;
  OpenMemory &operator=(const OpenMemory &) = delete;

 private:
  uintptr_t begin_ = 0, end_ = 0;
  bool is_range_;
};
// `insert` adds to the table memory that the emulator did not allocate; `erase` removes it from the table.
void insert(const void *begin, size_t bytes, Kind kind, int element_bytes, const char *name);
void erase(const void *begin);
// Adds the variables of the program to the table, at the first call.
void enter_variables();
// The live allocation that contains the address, else the freed one, else NULL. The pointer is valid until the table changes.
const Allocation *find(const void *address);
// Called after the host wrote these bytes, as by cudaMemcpy; `is_changed`: their values changed. Ignores memory outside of the table.
void written(const void *begin, size_t bytes, bool is_changed = true);
// The first of these bytes that was not written; NULL if all were.
const void *first_unwritten(const void *begin, size_t bytes);

struct Launch {
  const char *kernel = "";   // in reports and statistics
  Sizes blocks{1, 1, 1}, threads{1, 1, 1};
  size_t dynamic_shared = 0;
  // All blocks run at the same time, so that a barrier of the grid can order them.
  bool is_cooperative = false;
  // False if the kernel is compiled without hooks, or is not to be checked.
  bool has_checks = true;
  // Called by each thread of the grid with `data`.
  void (*body)(const void *data) = nullptr;
  const void *data = nullptr;
  // The raw bytes of the arguments. Words that are addresses count as pointers. Launches with equal bytes count as repetitions.
  const void *arguments = nullptr;
  size_t argument_bytes = 0;
  Position (*here)() = nullptr;
  Watch *watch = &program_watch;
};
Outcome run(const Launch &launch);
// Returns the twin of `function` that is compiled with or without checks, as `has_checks` says; a function without a twin unchanged.
using Function = void (*)();
Function twin_of(Function function, bool has_checks);

enum class Checks : uint8_t { sampled, all, none };
struct Settings {
  Checks checks = Checks::sampled;
  bool every_launch = false;  // do not skip repeated launches
  bool counts = true;         // print the share of checked blocks at the end
  uint64_t all_checked = 100'000'000;  // checked accesses of a kernel, after which only some blocks are checked
};
extern Settings settings;
// Reports a defect, or a warning, once for each line, on standard error. `caller` is an address after the call.
void report(const char *text, const void *caller, bool is_warning = false);
// The number of defects so far, without warnings.
unsigned defects();
// Prints counts, leaks and the share of checked blocks. Called once, at the end of the program.
void finish();

}  // namespace gpt2_emulator
