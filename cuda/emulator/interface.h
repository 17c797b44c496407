// What the CPU library (cpu/emulator.cpp) and a compiled file of kernels (kernel.h) know of each other. A kernel's file is compiled
// into a shared library of its own; `gpt2_emulated_module` is all that it exports.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt2_emulator {

constexpr int interface_version = 3;

struct Sizes {
  unsigned x, y, z;
};

// Where the running thread is: what CUDA calls threadIdx, blockIdx, blockDim and gridDim.
struct Position {
  Sizes thread, block, threads, blocks;
};

// What kernels call. `caller` is the address after the call in the user's code, from which errors tell the source line.
struct Host {
  // The memory of a __shared__ declaration, the same for all threads of the block.
  void *(*shared)(const void *declaration, size_t bytes, size_t alignment, const char *names, const void *caller);
  void *(*dynamic_shared)();
  // __syncthreads; returns for how many threads the predicate was not 0.
  unsigned (*barrier)(int predicate, const void *caller);
  // Waits for the lanes of the mask; returns the values that they gave, by lane, and in `lanes` which of them have not ended. Memory is
  // ordered between them if asked.
  const uint64_t *(*exchange)(unsigned mask, uint64_t value, bool orders_memory, unsigned *lanes, const void *caller);
  // Before an atomic operation, and for __threadfence.
  void (*atomic)(const void *memory, size_t bytes, const void *caller);
  void (*fence)();
  // An asynchronous copy, done at once; but its bytes of shared memory must not be used before the thread has waited for it. The last
  // `zeros` bytes are set to 0 instead. `commit` ends a group of the thread's copies; `wait` is for all its groups but the last `prior`.
  void (*copy)(void *to, const void *from, size_t bytes, size_t zeros, const void *caller);
  void (*commit)();
  void (*wait)(size_t prior, const void *caller);
  // Before a read or a write, if the file is compiled with checks.
  void (*access)(const void *memory, size_t bytes, bool is_write, const void *caller);
  // Before the body of a function that `caller` called, if the file is compiled with checks: its stack may be full.
  void (*enter)(const void *caller);
  // malloc and free of a kernel, if the file is compiled with checks.
  void *(*allocate)(size_t bytes);
  void (*release)(void *memory, const void *caller);
  // Ends the launch with an error at a line, or where the caller is (file NULL, or one of the emulator's
  // headers). Does not return.
  void (*fail)(const char *text, const char *file, unsigned line, const void *caller);
};

struct Parameter {
  const char *mangled_type;
  int offset, bytes;
  // Of a pointer, the bytes of what it points to; otherwise 0.
  int element_bytes;
};

struct Kernel {
  const char *name;
  // As in the source, separated by commas.
  const char *parameter_names;
  const Parameter *parameters;
  int parameter_count;
  // The most in a block.
  int threads;
  void (*function)();
  void (*call)(void (*function)(), const char *arguments);
};

struct Module {
  int version;
  bool has_checks;
  int kernel_count;
  const Kernel *kernels;
  // The calling thread's place for the position of the thread that it emulates.
  const Position **(*here)();
};

}  // namespace gpt2_emulator
