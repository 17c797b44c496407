// CUDA's language on a CPU, included before every file of kernels that is compiled for a CPU.
// src/ops/kernels/rewrite.ts rewrites __global__, __shared__, __device__, __constant__ and __managed__, which macros cannot replace.
#pragma once

// Removes the special functions of C++17, such as std::beta: programs that use namespace std name a variable beta.
#if __has_include(<bits/c++config.h>)
#include <bits/c++config.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
// For std::min and std::max, which nvcc's <cmath> declares through its special functions.
#include <bits/stl_algobase.h>
#endif

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
// Declares clock(), which C and CUDA have.
#include <time.h>

#include <type_traits>
#include <typeinfo>
#include <utility>

#include <assert.h>

#include "interface.h"

#define __host__
#define __grid_constant__
#define __forceinline__ inline
#define __maxnreg__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Compute capability 8.0 (Ampere), because code for later GPUs uses instructions that are not emulated.
#define __CUDA_ARCH__ 800
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0

// Attributes that exclude a function, unless it is inlined, from the compiler's checks.
#ifdef __clang__
// `convergent`: calls in two branches are not merged.
#define GPT2_NO_CHECKS convergent, no_sanitize("undefined"), disable_sanitizer_instrumentation
#else
#define GPT2_NO_CHECKS no_sanitize("thread", "undefined")
#endif
#define GPT2_UNCHECKED __attribute__((GPT2_NO_CHECKS, noinline))
// For functions that access the user's memory, or pass their return address (GPT2_CALLER) to the emulator: inlined, so
// that errors name the user's line.
#define GPT2_INLINE __attribute__((always_inline)) inline
#define GPT2_CALLER __builtin_return_address(0)

namespace gpt2_emulator {

#ifdef GPT2_PROGRAM
inline const Host *const host = &program_host;
static constexpr Watch &watch = program_watch;
#else
inline const Host *host;
inline Watch watch;
#endif

GPT2_UNCHECKED inline void fail(const char *text, const char *file, unsigned line, const void *caller, Outcome outcome = Outcome::stuck) {
#ifdef GPT2_PROGRAM
  if (!host->is_kernel()) {
    char whole[300];
    snprintf(whole, sizeof whole, "host code %s", text);
    if (file && !caller) fprintf(stderr, "%s:%u: %s\n", file, line, whole), __builtin_abort();
    return report(whole, caller);
  }
#endif
  host->fail(text, file, line, caller, outcome);
}

// ---------------------------------------------------------------- the table of kernels

// The bytes of the element that a pointer points to, 1 for void; 0 for a type that is no pointer.
template <class T, class Element = std::remove_pointer_t<T>>
constexpr int element_bytes = std::is_pointer_v<T> ? sizeof(std::conditional_t<std::is_void_v<Element>, char, Element>) : 0;

// The offsets of a kernel's arguments, as a GPU's driver packs them.
template <class... P>
struct Layout {
  // One more than needed, because C++ has no empty arrays.
  int offsets[sizeof...(P) + 1] = {};

  constexpr Layout() {
    int i = 0, end = 0;
    ((offsets[i] = (end + int(alignof(P)) - 1) / int(alignof(P)) * int(alignof(P)), end = offsets[i++] + int(sizeof(P))), ...);
  }
};

// Runs a kernel's body. Without checks (GPT2_PLAIN), one fiber repeats it for the following threads of the block until one has to wait.
inline bool is_next_thread();
#ifdef GPT2_PLAIN
constexpr bool is_plain = true;
#define GPT2_EACH_THREAD(call) \
  do call;                     \
  while (::gpt2_emulator::is_next_thread())
#else
constexpr bool is_plain = false;
#define GPT2_EACH_THREAD(call) call
#endif

template <class... P>
struct Caller {
  static constexpr Layout<P...> layout{};

  template <size_t... I>
  GPT2_UNCHECKED static void pass(void (*function)(P...), const char *arguments, std::index_sequence<I...>) {
    GPT2_EACH_THREAD(function(*reinterpret_cast<const std::remove_cv_t<P> *>(arguments + layout.offsets[I])...));
  }

  GPT2_UNCHECKED static void call(void (*function)(), const char *arguments) {
    pass(reinterpret_cast<void (*)(P...)>(function), arguments, std::index_sequence_for<P...>());
  }
};

template <class... P>
GPT2_UNCHECKED Kernel kernel(const char *name, const char *parameter_names, int threads, void (*function)(P...)) {
  static Parameter parameters[] = {{typeid(P).name(), 0, int(sizeof(P)), element_bytes<P>}..., {}};
  for (size_t i = 0; i < sizeof...(P); i++) parameters[i].offset = Caller<P...>::layout.offsets[i];
  const auto untyped = reinterpret_cast<void (*)()>(function);
  return {name, parameter_names, parameters, int(sizeof...(P)), threads, untyped, &Caller<P...>::call};
}

// The most threads of a block, which is the first argument of __launch_bounds__. The other arguments are ignored.
constexpr int launch_bounds(int threads, int = 0, int = 0) { return threads; }

// ---------------------------------------------------------------- shared memory

// The memory of the __shared__ variable `name`, the INDEX-th of its declaration.
template <class Declaration, int INDEX, class T>
GPT2_UNCHECKED T &shared(const char *name) {
  static const char key = 0;
  return *reinterpret_cast<T *>(host->shared(&key, sizeof(T), alignof(Declaration), name, GPT2_CALLER));
}

template <class T>
GPT2_UNCHECKED T *dynamic_shared() {
  return static_cast<T *>(host->dynamic_shared());
}

// The bits of a value of up to 8 bytes.
template <class T>
uint64_t bits_of(T value) {
  static_assert(sizeof(T) <= 8, "a value of a warp has at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
T from_bits(uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace gpt2_emulator

// ---------------------------------------------------------------- types and built-in variables

// `two` and `four` are the alignments of the types of two and of four elements.
#define GPT2_VECTORS(T, name, two, four)                                                    \
  struct name##1 {                                                                          \
    T x;                                                                                    \
  };                                                                                        \
  struct alignas(two) name##2 {                                                             \
    T x, y;                                                                                 \
  };                                                                                        \
  struct name##3 {                                                                          \
    T x, y, z;                                                                              \
  };                                                                                        \
  struct alignas(four) name##4 {                                                            \
    T x, y, z, w;                                                                           \
  };                                                                                        \
  inline name##1 make_##name##1(T x) { return {x}; }                                        \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                        \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

GPT2_VECTORS(signed char, char, 2, 4)
GPT2_VECTORS(unsigned char, uchar, 2, 4)
GPT2_VECTORS(short, short, 4, 8)
GPT2_VECTORS(unsigned short, ushort, 4, 8)
GPT2_VECTORS(int, int, 8, 16)
GPT2_VECTORS(unsigned, uint, 8, 16)
GPT2_VECTORS(long long, longlong, 16, 16)
GPT2_VECTORS(unsigned long long, ulonglong, 16, 16)
GPT2_VECTORS(float, float, 8, 16)
GPT2_VECTORS(double, double, 16, 16)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 sizes) : x(sizes.x), y(sizes.y), z(sizes.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// Variables, not macros, because host code may declare a variable gridDim. The emulator sets them for each thread.
inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;
// The number of following threads, not begun, that the running fiber may run in a loop; 0 with checks.
inline thread_local unsigned gpt2_fresh;
constexpr int warpSize = 32;

namespace gpt2_emulator {

GPT2_UNCHECKED inline Position here() {
  const auto sizes = [](auto &variable) { return reinterpret_cast<Sizes *>(&variable); };
  return {sizes(threadIdx), sizes(blockIdx), sizes(blockDim), sizes(gridDim), &gpt2_fresh};
}

// Moves on to the next thread that this fiber may run in its loop; false if there is none.
inline bool is_next_thread() {
  if (gpt2_fresh == 0) return false;
  gpt2_fresh--;
  if (++threadIdx.x < blockDim.x) return true;
  threadIdx.x = 0;
  if (++threadIdx.y < blockDim.y) return true;
  threadIdx.y = 0;
  threadIdx.z++;
  return true;
}

// The running thread's index in its block. Unchecked, so that reads of threadIdx and blockDim call no hooks.
GPT2_UNCHECKED inline unsigned linear_thread() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

inline unsigned lane() { return linear_thread() % 32; }

}  // namespace gpt2_emulator

// ---------------------------------------------------------------- barriers and warps

GPT2_UNCHECKED inline void __syncthreads() { gpt2_emulator::host->barrier(0, GPT2_CALLER); }
GPT2_UNCHECKED inline int __syncthreads_count(int predicate) { return gpt2_emulator::host->barrier(predicate, GPT2_CALLER); }
GPT2_UNCHECKED inline int __syncthreads_or(int predicate) {
  return gpt2_emulator::host->barrier(predicate, GPT2_CALLER) > 0;
}
GPT2_UNCHECKED inline int __syncthreads_and(int predicate) {
  return gpt2_emulator::host->barrier(!predicate, GPT2_CALLER) == 0;
}
GPT2_UNCHECKED inline void __syncwarp(unsigned mask = 0xffffffffu) {
  gpt2_emulator::host->exchange(mask, 0, true, nullptr, GPT2_CALLER);
}
GPT2_UNCHECKED inline void __threadfence_block() { gpt2_emulator::host->fence(); }
inline void __threadfence() { __threadfence_block(); }
inline void __threadfence_system() { __threadfence_block(); }
// The active lanes. CUDA leaves them undefined; here, as on a GPU, they are the lanes that took the same branch.
GPT2_UNCHECKED inline unsigned __activemask() { return gpt2_emulator::host->active(); }

// Shuffles return the value of another lane, or the caller's value if that lane is outside the caller's group of
// `width` lanes. The value of a lane that has ended, or that the block does not have, is undefined on a GPU: here it is
// reported, and all its bits are set, a NaN of every type.
inline constexpr uint64_t gpt2_undefined = ~uint64_t{0};
// Distances outside of 0 to 32, and widths that are no power of two up to 32, are errors here. A GPU uses only their lowest bits.
#define GPT2_SHUFFLE(name, parameter, is_near, condition, source)                                                   \
  template <class T>                                                                                                \
  GPT2_UNCHECKED T name(unsigned mask, T value, parameter, int width = 32) {                                        \
    using namespace gpt2_emulator;                                                                                  \
    if (width < 1 || width > 32 || (width & (width - 1)) != 0) {                                                    \
      fail("shuffles in a width that is not 1, 2, 4, 8, 16 or 32", nullptr, 0, GPT2_CALLER);                        \
    }                                                                                                               \
    if (!(is_near)) fail("shuffles by a distance that is not 0 to 32", nullptr, 0, GPT2_CALLER);                    \
    unsigned there;                                                                                                 \
    const uint64_t *values = host->exchange(mask, bits_of(value), false, &there, GPT2_CALLER);                      \
    const int self = lane(), first = self / width * width, wanted = source;                                         \
    if (!(condition)) return value;                                                                                 \
    if (!(mask >> wanted & 1)) fail("reads the value of a lane that is not in its mask", nullptr, 0, GPT2_CALLER);  \
    if (there >> wanted & 1) return from_bits<T>(values[wanted]);                                                   \
    host->undefined(unsigned(wanted), GPT2_CALLER);                                                                 \
    return from_bits<T>(gpt2_undefined);                                                                            \
  }
GPT2_SHUFFLE(__shfl_sync, int lane_in_part, true, true, first + (lane_in_part & (width - 1)))
GPT2_SHUFFLE(__shfl_up_sync, unsigned delta, delta <= 32, wanted >= first, self - int(delta))
GPT2_SHUFFLE(__shfl_down_sync, unsigned delta, delta <= 32, wanted < first + width, self + int(delta))
GPT2_SHUFFLE(__shfl_xor_sync, int lanes, unsigned(lanes) <= 32, wanted < first + width, self ^ lanes)

namespace gpt2_emulator {

// Calls visit(lane, value) for each lane of the mask that has not ended, in the order of lanes.
template <class T, class Visit>
GPT2_UNCHECKED void each_lane(unsigned mask, T value, const void *caller, const Visit &visit) {
  unsigned there;
  const uint64_t *values = host->exchange(mask, bits_of(value), false, &there, caller);
  for (unsigned i = 0; i < 32; i++) {
    if (there >> i & 1) visit(i, from_bits<T>(values[i]));
  }
}

}  // namespace gpt2_emulator

GPT2_UNCHECKED inline unsigned __ballot_sync(unsigned mask, int predicate) {
  unsigned result = 0;
  gpt2_emulator::each_lane(mask, predicate, GPT2_CALLER, [&](unsigned lane, int is) { result |= unsigned(is != 0) << lane; });
  return result;
}
GPT2_INLINE int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
GPT2_INLINE int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
// The lanes of the mask that have not ended, in the upper half. The lower half: the lanes among them whose value has the bits of `value`.
template <class T>
GPT2_UNCHECKED uint64_t gpt2_matches(unsigned mask, T value) {
  uint64_t found = 0;
  gpt2_emulator::each_lane(mask, value, GPT2_CALLER, [&](unsigned lane, T other) {
    found |= ((uint64_t{1} << 32) | (__builtin_memcmp(&other, &value, sizeof value) == 0)) << lane;
  });
  return found;
}
template <class T>
GPT2_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  return unsigned(gpt2_matches(mask, value));
}
template <class T>
GPT2_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all) {
  const uint64_t found = gpt2_matches(mask, value);
  *all = unsigned(found) == found >> 32;
  return *all ? unsigned(found) : 0;
}
// Joins the calling lane's value `a` with the value `b` of each other lane, one after another.
#define GPT2_REDUCE(name, T, expression)                                                          \
  GPT2_UNCHECKED inline T name(unsigned mask, T a) {                                              \
    gpt2_emulator::each_lane(mask, a, GPT2_CALLER, [&a, self = gpt2_emulator::lane()](unsigned lane, T b) { \
      if (lane != self) a = expression;                                                           \
    });                                                                                           \
    return a;                                                                                     \
  }
GPT2_REDUCE(__reduce_add_sync, unsigned, a + b)
GPT2_REDUCE(__reduce_add_sync, int, a + b)
GPT2_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
GPT2_REDUCE(__reduce_min_sync, int, a < b ? a : b)
GPT2_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
GPT2_REDUCE(__reduce_max_sync, int, a < b ? b : a)
GPT2_REDUCE(__reduce_and_sync, unsigned, a &b)
GPT2_REDUCE(__reduce_or_sync, unsigned, a | b)
GPT2_REDUCE(__reduce_xor_sync, unsigned, a ^ b)

#include "functions.h"
#include "ptx.h"
