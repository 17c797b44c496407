// CUDA's atomic operations, and functions that concern one thread only. Included by kernel.h.
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

// The threads of a group copy together: each thread copies some units.
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
template <class T>
GPT2_UNCHECKED T atomicCAS(T *memory, std::common_type_t<T> expected, std::common_type_t<T> value) {
  return gpt2_emulator::changed(memory, GPT2_CALLER, [=](T old) -> T { return old == expected ? value : old; });
}

// ---------------------------------------------------------------- memory, bits, arithmetic

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
inline unsigned long long __cvta_generic_to_shared(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

#define GPT2_MIN_MAX(T)                            \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
GPT2_MIN_MAX(int)
GPT2_MIN_MAX(unsigned)
GPT2_MIN_MAX(long)
GPT2_MIN_MAX(unsigned long)
GPT2_MIN_MAX(long long)
GPT2_MIN_MAX(unsigned long long)
inline unsigned min(int a, unsigned b) { return min(unsigned(a), b); }
inline unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
inline unsigned max(int a, unsigned b) { return max(unsigned(a), b); }
inline unsigned max(unsigned a, int b) { return max(a, unsigned(b)); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(bits) : 32; }
inline int __clzll(long long bits) { return bits ? __builtin_clzll(bits) : 64; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline unsigned __brev(unsigned bits) {
  unsigned result = 0;
  for (int i = 0; i < 32; i++) result |= (bits >> i & 1) << (31 - i);
  return result;
}
inline int __mulhi(int a, int b) { return int((long long)(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)(a) * b >> 32); }
inline int __float_as_int(float value) { return gpt2_emulator::from_bits<int>(gpt2_emulator::bits_of(value)); }
inline unsigned __float_as_uint(float value) { return gpt2_emulator::from_bits<unsigned>(gpt2_emulator::bits_of(value)); }
inline float __int_as_float(int bits) { return gpt2_emulator::from_bits<float>(gpt2_emulator::bits_of(bits)); }
inline float __uint_as_float(unsigned bits) { return gpt2_emulator::from_bits<float>(gpt2_emulator::bits_of(bits)); }
inline long long __double_as_longlong(double value) { return gpt2_emulator::from_bits<long long>(gpt2_emulator::bits_of(value)); }
inline double __longlong_as_double(long long bits) { return gpt2_emulator::from_bits<double>(gpt2_emulator::bits_of(bits)); }
inline int __double2hiint(double value) { return int(__double_as_longlong(value) >> 32); }
inline int __double2loint(double value) { return int(__double_as_longlong(value)); }
inline double __hiloint2double(int high, int low) { return __longlong_as_double((long long)(high) << 32 | unsigned(low)); }
inline int __float2int_rn(float value) { return int(rintf(value)); }
inline int __float2int_rz(float value) { return int(value); }
inline int __float2int_rd(float value) { return int(floorf(value)); }
inline int __float2int_ru(float value) { return int(ceilf(value)); }
inline unsigned __float2uint_rn(float value) { return unsigned(rintf(value)); }
inline float __int2float_rn(int value) { return float(value); }
inline float __uint2float_rn(unsigned value) { return float(value); }
inline float __double2float_rn(double value) { return float(value); }
inline int __double2int_rn(double value) { return int(rint(value)); }
inline int __double2int_rz(double value) { return int(value); }
inline long long __double2ll_rn(double value) { return (long long)(rint(value)); }
inline long long __double2ll_rz(double value) { return (long long)(value); }
inline double __int2double_rn(int value) { return value; }
inline double __ll2double_rn(long long value) { return double(value); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }

inline void __nanosleep(unsigned) {}
inline long long clock64() { return 0; }
GPT2_UNCHECKED inline void __trap() { gpt2_emulator::fail("calls __trap()", nullptr, 0, GPT2_CALLER); }
