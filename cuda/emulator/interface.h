// The interface between the CPU library (cpu/emulator) and a compiled file of kernels (kernel.h). A file of kernels is
// compiled into a shared library that exports only `gpt2_emulated_module`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt2_emulator {

constexpr int interface_version = 3;

struct Sizes {
  unsigned x, y, z;
};

// The position of the running thread: CUDA's threadIdx, blockIdx, blockDim and gridDim.
struct Position {
  Sizes thread, block, threads, blocks;
};

// Functions that kernels call. `caller` is the address after the call in the user's code, for the line in errors.
struct Host {
  // The memory of a __shared__ declaration, the same for all threads of the block.
  void *(*shared)(const void *declaration, size_t bytes, size_t alignment, const char *names, const void *caller);
  void *(*dynamic_shared)();
  // __syncthreads; returns the number of threads whose predicate was not 0.
  unsigned (*barrier)(int predicate, const void *caller);
  // Waits for the lanes of the mask. Returns their values, by lane, and in `lanes` the lanes that have not ended. With
  // `orders_memory`, orders memory between the lanes.
  const uint64_t *(*exchange)(unsigned mask, uint64_t value, bool orders_memory, unsigned *lanes, const void *caller);
  // Called before an atomic operation, and for __threadfence.
  void (*atomic)(const void *memory, size_t bytes, const void *caller);
  void (*fence)();
  // An asynchronous copy. The copy is done at once, but its bytes of shared memory must not be used before the thread
  // has waited. The last `zeros` bytes are set to 0 instead. `commit` ends a group of the thread's copies; `wait` waits
  // for all groups but the last `prior`.
  void (*copy)(void *to, const void *from, size_t bytes, size_t zeros, const void *caller);
  void (*commit)();
  void (*wait)(size_t prior, const void *caller);
  // Called before a read or a write, if the file is compiled with checks.
  void (*access)(const void *memory, size_t bytes, bool is_write, const void *caller);
  // Called before a function's body, if the file is compiled with checks, because the stack may be full.
  void (*enter)(const void *caller);
  // malloc and free of a kernel, if the file is compiled with checks.
  void *(*allocate)(size_t bytes);
  void (*release)(void *memory, const void *caller);
  // Fails the launch at a line, or at the caller's line if `file` is NULL or a header of the emulator. Does not return.
  void (*fail)(const char *text, const char *file, unsigned line, const void *caller);
};

struct Parameter {
  const char *mangled_type;
  int offset, bytes;
  int element_bytes;  // of an element that a pointer points to; otherwise 0
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
  // Returns the address of this OS thread's pointer to the running emulated thread's indices.
  const Position **(*here)();
};

}  // namespace gpt2_emulator
