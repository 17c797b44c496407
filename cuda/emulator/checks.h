// The functions that the compiler's checks call (-fsanitize=thread,bounds,alignment,integer-divide-by-zero), in place
// of a sanitizer's library. Included at the end of a file of kernels that is compiled with checks.
#pragma once

#include <stdarg.h>

#define GPT2_TELL(memory, size, is_write)                                                                    \
  if (__builtin_expect(uintptr_t(memory) - gpt2_emulator::watch.begin < gpt2_emulator::watch.bytes, false))  \
  gpt2_emulator::host->access(memory, size, is_write, GPT2_CALLER)
GPT2_UNCHECKED inline void gpt2_misaligned(const void *memory, int bytes, const void *caller) {
  using namespace gpt2_emulator;
  char text[80];
  snprintf(text, sizeof text, "reads %d bytes at an address that is not a multiple of %d", bytes, bytes < 8 ? bytes : 8);
  if (uintptr_t(memory) - watch.begin < watch.bytes) fail(text, nullptr, 0, caller, Outcome::misaligned);
}

// Hooks are weak symbols, because a program may link several files that define them.
#define GPT2_HOOK extern "C" __attribute__((GPT2_NO_CHECKS, visibility("hidden"), used, weak))

// `alignment`: in bytes; checked here because -fsanitize=alignment skips some reads. Tail calls need no stack frame.
#define GPT2_ACCESS(kind, bytes, alignment)                                                                  \
  GPT2_HOOK void __tsan_##kind##read##bytes(void *memory) {                                                  \
    const bool is_wrong = uintptr_t(memory) % (alignment) != 0;                                              \
    if (__builtin_expect(is_wrong, false)) return gpt2_misaligned(memory, bytes, GPT2_CALLER);               \
    GPT2_TELL(memory, bytes, false);                                                                         \
  }                                                                                                          \
  GPT2_HOOK void __tsan_##kind##write##bytes(void *memory) { GPT2_TELL(memory, bytes, true); }               \
  GPT2_HOOK void __tsan_##kind##read_write##bytes(void *memory) {                                            \
    GPT2_TELL(memory, bytes, false);                                                                         \
    GPT2_TELL(memory, bytes, true);                                                                          \
  }
#define GPT2_ACCESSES(bytes) GPT2_ACCESS(, bytes, bytes < 8 ? bytes : 8) GPT2_ACCESS(unaligned_, bytes, 1)
GPT2_ACCESS(, 1, 1)
GPT2_ACCESSES(2)
GPT2_ACCESSES(4)
GPT2_ACCESSES(8)
GPT2_ACCESSES(16)
GPT2_HOOK void __tsan_read_range(void *memory, size_t bytes) { GPT2_TELL(memory, bytes, false); }
GPT2_HOOK void __tsan_write_range(void *memory, size_t bytes) { GPT2_TELL(memory, bytes, true); }

// Every call of memcpy, memmove and memset comes here (wrappedFunctions in src/ops/kernels/emulated.ts), whether the user,
// a header or the compiler wrote it: in the assembly memcpy becomes __wrap_memcpy, and then __real_memcpy becomes memcpy.
#define GPT2_WRAP(name, parameters, reads, ...)                                     \
  extern "C" void *__real_##name parameters;                                        \
  GPT2_HOOK void *__wrap_##name parameters {                                        \
    if (bytes > 0 && reads) GPT2_TELL(reads, bytes, false);                         \
    if (bytes > 0) GPT2_TELL(to, bytes, true);                                      \
    return __real_##name(__VA_ARGS__);                                              \
  }
GPT2_WRAP(memcpy, (void *to, const void *from, size_t bytes), from, to, from, bytes)
GPT2_WRAP(memmove, (void *to, const void *from, size_t bytes), from, to, from, bytes)
GPT2_WRAP(memset, (void *to, int value, size_t bytes), (void *)nullptr, to, value, bytes)
// Clang's checks call memcpy and the like by these names.
GPT2_HOOK void *__tsan_memcpy(void *to, const void *from, size_t bytes) __attribute__((alias("__wrap_memcpy")));
GPT2_HOOK void *__tsan_memmove(void *to, const void *from, size_t bytes) __attribute__((alias("__wrap_memmove")));
GPT2_HOOK void *__tsan_memset(void *to, int value, size_t bytes) __attribute__((alias("__wrap_memset")));
// Without these macros the compiler would expand a header's __builtin_memcpy of constant length without checks.
#define __builtin_memcpy memcpy
#define __builtin_memmove memmove
#define __builtin_memset memset

// malloc, free, new and delete of kernels. Host code of a program keeps the system's functions.
#define GPT2_NEW(name)                                                                                        \
  extern "C" void *__real_##name(size_t);                                                                     \
  GPT2_HOOK void *__wrap_##name(size_t bytes) {                                                               \
    return gpt2_emulator::host->is_kernel() ? gpt2_emulator::host->allocate(bytes) : __real_##name(bytes);    \
  }
#define GPT2_DELETE(name, ...)                                                                                \
  extern "C" void __real_##name(void *);                                                                      \
  GPT2_HOOK void __wrap_##name(void *memory __VA_ARGS__) {                                                    \
    if (!gpt2_emulator::host->release(memory, GPT2_CALLER)) __real_##name(memory);                            \
  }
GPT2_NEW(malloc)
GPT2_NEW(_Znwm)
GPT2_NEW(_Znam)
GPT2_DELETE(free)
GPT2_DELETE(_ZdlPv)
GPT2_DELETE(_ZdaPv)
GPT2_DELETE(_ZdlPvm, , size_t)
GPT2_DELETE(_ZdaPvm, , size_t)

// A launch that prints or reads a clock is not skipped when it is repeated.
#define GPT2_EFFECT(...)                                             \
  if (gpt2_emulator::host->is_kernel()) gpt2_emulator::host->effect(); \
  return __VA_ARGS__;
extern "C" int __real_puts(const char *), __real_putchar(int);
extern "C" clock_t __real_clock();
GPT2_HOOK int __wrap_puts(const char *text) { GPT2_EFFECT(__real_puts(text)) }
GPT2_HOOK int __wrap_putchar(int letter) { GPT2_EFFECT(__real_putchar(letter)) }
GPT2_HOOK clock_t __wrap_clock() { return gpt2_emulator::host->is_kernel() ? clock64() : __real_clock(); }
GPT2_HOOK int __wrap_printf(const char *format, ...) {
  va_list values;
  va_start(values, format);
  const int printed = vprintf(format, values);
  va_end(values);
  GPT2_EFFECT(printed)
}

// Atomic operations of host code: std::atomic, reference counts, guards of static variables.
constexpr int gpt2_order = __ATOMIC_SEQ_CST;
#define GPT2_ATOMIC(bits, type, name, parameters, is_write, ...)                                                    \
  GPT2_HOOK type __tsan_atomic##bits##_##name parameters {                                                          \
    GPT2_TELL(memory, bits / 8, is_write);                                                                          \
    return __VA_ARGS__;                                                                                             \
  }
#define GPT2_UPDATE(bits, type, name, function)                                                                     \
  GPT2_ATOMIC(bits, type, name, (type *memory, type value, int), true, function(memory, value, gpt2_order))
#define GPT2_COMPARE(bits, type, name, is_weak)                                                                     \
  GPT2_ATOMIC(bits, int, compare_exchange_##name, (type *memory, type *expected, type value, int, int), true,       \
              __atomic_compare_exchange_n(memory, expected, value, is_weak, gpt2_order, gpt2_order))
#define GPT2_ATOMICS(bits, type)                                                                                    \
  GPT2_ATOMIC(bits, type, load, (const type *memory, int), false, __atomic_load_n(memory, gpt2_order))              \
  GPT2_ATOMIC(bits, void, store, (type *memory, type value, int), true, __atomic_store_n(memory, value, gpt2_order))\
  GPT2_UPDATE(bits, type, exchange, __atomic_exchange_n)                                                            \
  GPT2_UPDATE(bits, type, fetch_add, __atomic_fetch_add)                                                            \
  GPT2_UPDATE(bits, type, fetch_sub, __atomic_fetch_sub)                                                            \
  GPT2_UPDATE(bits, type, fetch_and, __atomic_fetch_and)                                                            \
  GPT2_UPDATE(bits, type, fetch_or, __atomic_fetch_or)                                                              \
  GPT2_UPDATE(bits, type, fetch_xor, __atomic_fetch_xor)                                                            \
  GPT2_UPDATE(bits, type, fetch_nand, __atomic_fetch_nand)                                                          \
  GPT2_COMPARE(bits, type, strong, false)                                                                           \
  GPT2_COMPARE(bits, type, weak, true)
GPT2_ATOMICS(8, unsigned char)
GPT2_ATOMICS(16, unsigned short)
GPT2_ATOMICS(32, unsigned)
GPT2_ATOMICS(64, unsigned long long)
GPT2_HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(gpt2_order); }
GPT2_HOOK void __tsan_atomic_signal_fence(int) {}
GPT2_HOOK void __tsan_func_entry(void *caller) {
  if (gpt2_emulator::watch.bytes > 0) gpt2_emulator::host->enter(caller);
}
GPT2_HOOK void __tsan_func_exit() {}
GPT2_HOOK void __tsan_init() {}
GPT2_HOOK void __tsan_vptr_read(void **memory) { GPT2_TELL(memory, sizeof *memory, false); }
GPT2_HOOK void __tsan_vptr_update(void **memory, void *) { GPT2_TELL(memory, sizeof *memory, true); }

namespace gpt2_emulator {

struct Place {
  const char *file;
  uint32_t line, column;
};
struct Type {
  uint16_t kind, info;
  char name[1];
};
struct OutOfBounds {
  Place place;
  const Type *array, *index;
};
struct Mismatch {
  Place place;
  const Type *type;
  unsigned char log_alignment, kind;
};

inline void fail_at(const Place &place, const char *text, const void *caller, Outcome outcome = Outcome::stuck) {
  fail(text, place.file, place.line, caller, outcome);
}

}  // namespace gpt2_emulator

GPT2_HOOK void __ubsan_handle_out_of_bounds(gpt2_emulator::OutOfBounds *data, uintptr_t index) {
  char text[200];
  // The index is passed as up to 64 bits, signed or not according to its type.
  const unsigned width = 1u << (data->index->info >> 1);
  const bool is_signed = data->index->info & 1;
  const long long value = is_signed && width < 64 ? (long long)(index << (64 - width)) >> (64 - width) : (long long)(index);
  snprintf(text, sizeof text, "uses index %lld of an array of type %s", value, data->array->name);
  gpt2_emulator::fail_at(data->place, text, GPT2_CALLER);
}
GPT2_HOOK void __ubsan_handle_type_mismatch_v1(gpt2_emulator::Mismatch *data, uintptr_t address) {
  char text[200];
  const unsigned long alignment = 1ul << data->log_alignment;
  if (address % alignment == 0) return;
  snprintf(text, sizeof text, "accesses %s at an address that is not a multiple of %lu", data->type->name, alignment);
  gpt2_emulator::fail_at(data->place, text, GPT2_CALLER, gpt2_emulator::Outcome::misaligned);
}
GPT2_HOOK void __ubsan_handle_divrem_overflow(gpt2_emulator::OutOfBounds *data, uintptr_t, uintptr_t) {
  gpt2_emulator::fail_at(data->place, "divides an integer by 0", GPT2_CALLER);
}
