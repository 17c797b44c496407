// CUDA's atomic operations, loads, stores and clocks. Included by kernel.h.
#pragma once

// ---------------------------------------------------------------- atomic operations

namespace gpt2_emulator {

// Replaces *memory by change(*memory), and returns the old value.
template <class T, class Change>
inline __attribute__((always_inline, GPT2_NO_CHECKS)) T changed(T *memory, const void *caller,
                                                                                   const Change &change) {
  host->atomic(memory, sizeof(T), caller);
  T before, after;
  __atomic_load(memory, &before, __ATOMIC_SEQ_CST);
  do {
    after = change(before);
  } while (!__atomic_compare_exchange(memory, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return before;
}

// An asynchronous copy by all threads of a group. Each thread copies 4 bytes in turn, or 1 if an address or the size is unaligned.
template <class Group>
inline __attribute__((always_inline, GPT2_NO_CHECKS)) void copy_together(const Group &group, void *to, const void *from, size_t bytes,
                                                                         const void *caller) {
  const size_t unit = (uintptr_t(to) | uintptr_t(from) | bytes) % 4 == 0 ? 4 : 1;
  for (size_t at = group.thread_rank() * unit; at < bytes; at += group.size() * unit) {
    host->copy(static_cast<char *>(to) + at, static_cast<const char *>(from) + at, unit, 0, caller);
  }
  host->commit();
}

}  // namespace gpt2_emulator

#define GPT2_ATOMIC_OF(name, expression)                                                                     \
  template <class T>                                                                                         \
  GPT2_UNCHECKED T name(T *memory, std::common_type_t<T> value) {                                            \
    return gpt2_emulator::changed(memory, GPT2_CALLER, [=](T old) -> T { return expression; });              \
  }
#define GPT2_ATOMIC(name, expression) \
  GPT2_ATOMIC_OF(name, expression) GPT2_ATOMIC_OF(name##_block, expression) GPT2_ATOMIC_OF(name##_system, expression)
GPT2_ATOMIC(atomicAdd, old + value)
GPT2_ATOMIC(atomicSub, old - value)
GPT2_ATOMIC(atomicExch, (void(old), value))
GPT2_ATOMIC(atomicMin, old < value ? old : value)
GPT2_ATOMIC(atomicMax, old < value ? value : old)
GPT2_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
GPT2_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
GPT2_ATOMIC(atomicAnd, old &value)
GPT2_ATOMIC(atomicOr, old | value)
GPT2_ATOMIC(atomicXor, old ^ value)
#define GPT2_ATOMIC_CAS(name)                                                                                       \
  template <class T>                                                                                                \
  GPT2_UNCHECKED T name(T *memory, std::common_type_t<T> expected, std::common_type_t<T> value) {                   \
    return gpt2_emulator::changed(memory, GPT2_CALLER, [=](T old) -> T { return old == expected ? value : old; }); \
  }
GPT2_ATOMIC_CAS(atomicCAS) GPT2_ATOMIC_CAS(atomicCAS_block) GPT2_ATOMIC_CAS(atomicCAS_system)

// ---------------------------------------------------------------- memory, clocks

template <class T>
GPT2_INLINE T __ldg(const T *memory) {
  return *memory;
}
#define __ldcg __ldg
#define __ldca __ldg
#define __ldcs __ldg
#define __ldlu __ldg
#define __ldcv __ldg
template <class T>
GPT2_INLINE void __stcs(T *memory, T value) {
  *memory = value;
}
#define __stcg __stcs
#define __stwb __stcs
#define __stwt __stcs
// Converts a pointer to shared memory to PTX's 32-bit address, the pointer's lower 32 bits. The reverse conversion adds the upper bits.
inline size_t __cvta_generic_to_shared(const void *memory) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(memory)); }
inline void *__cvta_shared_to_generic(size_t address) {
  char *const near = gpt2_emulator::dynamic_shared<char>();
  return near + static_cast<int32_t>(static_cast<uint32_t>(address) - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(near)));
}
inline size_t __cvta_generic_to_global(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }
inline void __nanosleep(unsigned) {}
// Returns nanoseconds, where a GPU returns clock cycles.
GPT2_UNCHECKED inline long long clock64() {
  gpt2_emulator::host->effect();
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}
inline unsigned long long __globaltimer() { return clock64(); }
GPT2_UNCHECKED inline void __trap() { gpt2_emulator::fail("calls __trap()", nullptr, 0, GPT2_CALLER); }

#include "arithmetic.h"
