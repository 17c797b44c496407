// PTX instructions as functions, which code from src/ops/kernels/ptx.ts calls, and the mma operations of a warp's lanes.
#pragma once

#include "include/cuda_pipeline.h"
#include "include/narrow-float.h"

namespace gpt2_emulator {

// Called by all 32 lanes: points lanes[l] to lane l's `own`, which stays on that lane's stack until all lanes have called `part`.
template <class T>
GPT2_UNCHECKED void meet(const T &own, const T *(&lanes)[32], const void *caller) {
  unsigned there;
  const uint64_t *exchanged = host->exchange(0xffffffffu, reinterpret_cast<uintptr_t>(&own), false, &there, caller);
  if (there != 0xffffffffu) fail("uses tensor cores in a warp that lacks some of its 32 lanes", nullptr, 0, caller);
  for (int i = 0; i < 32; i++) lanes[i] = reinterpret_cast<const T *>(exchanged[i]);
}
GPT2_UNCHECKED inline void part(const void *caller) { host->exchange(0xffffffffu, 0, false, nullptr, caller); }

namespace ptx {

// A register's value as another type: converted between integers or between floats, otherwise the same bits.
template <class To, class From>
GPT2_INLINE To as(From value) {
  if constexpr (std::is_pointer_v<From>) {
    return To(reinterpret_cast<uintptr_t>(value));
  } else if constexpr (std::is_arithmetic_v<From> && std::is_floating_point_v<From> == std::is_floating_point_v<To>) {
    return To(value);
  } else {
    static_assert(sizeof(From) <= 8);
    return from_bits<To>(bits_of(value));
  }
}
template <class To, class From>
GPT2_INLINE void set(To &to, From value) {
  to = as<To>(value);
}

// `bits` bits of a value, from bit `first` on.
GPT2_INLINE uint64_t field(uint64_t value, uint32_t first, uint32_t bits) {
  first &= 255, bits &= 255;
  return first > 63 ? 0 : value >> first & (bits > 63 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
}

// lop3: each bit of the result is a bit of `table`, at the number whose binary digits are the bits of a, b and c.
GPT2_INLINE uint32_t by_table(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (int i = 0; i < 8; i++) result |= -(table >> i & 1) & (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return result;
}

// A pointer to the memory at an address that a register holds.
template <bool IS_SHARED, class Address>
GPT2_INLINE char *at(Address address, long offset = 0) {
  if constexpr (IS_SHARED) return static_cast<char *>(__cvta_shared_to_generic(as<uint64_t>(address))) + offset;
  else return reinterpret_cast<char *>(as<uint64_t>(address)) + offset;
}

template <class T, int COUNT>
struct alignas(sizeof(T) * COUNT) Vector {
  T values[COUNT];
};
template <class T, class... To>
GPT2_INLINE void load(const char *memory, To &...to) {
  const auto vector = *reinterpret_cast<const Vector<T, sizeof...(To)> *>(memory);
  int i = 0;
  (set(to, vector.values[i++]), ...);
}
template <class T, class... From>
GPT2_INLINE void store(char *memory, const From &...from) {
  *reinterpret_cast<Vector<T, sizeof...(From)> *>(memory) = {{as<T>(from)...}};
}

// Passes the addresses of matrix rows, one from each of the first `count` lanes, to all lanes.
GPT2_UNCHECKED inline void exchange_rows(const char *own, unsigned count, const char *(&rows)[32]) {
  if (lane() < count && uintptr_t(own) % 16 != 0) {
    fail("loads a row of a matrix from an address that is not a multiple of 16", nullptr, 0, GPT2_CALLER, Outcome::misaligned);
  }
  const char *const *lanes[32];
  meet(own, lanes, GPT2_CALLER);
  for (unsigned i = 0; i < count; i++) rows[i] = *lanes[i];
  part(GPT2_CALLER);
}
// ldmatrix: from each 8 x 8 matrix of 16-bit elements, lane l gets elements 2(l % 4) and 2(l % 4) + 1 of row (transposed: column) l / 4.
template <bool IS_TRANSPOSED, class... To>
GPT2_INLINE void load_matrices(const char *row, To &...to) {
  const char *rows[32];
  exchange_rows(row, 8 * sizeof...(To), rows);
  const unsigned group = lane() / 4, pair = lane() % 4 * 2;
  int i = 0;
  const auto element = [&](unsigned row, unsigned column) {
    return unsigned(*reinterpret_cast<const unsigned short *>(rows[8 * i + row] + 2 * column));
  };
  ((set(to, IS_TRANSPOSED ? element(pair, group) | element(pair + 1, group) << 16
                          : element(group, pair) | element(group, pair + 1) << 16),
    i++),
   ...);
}

// Access to the elements of a 32-bit register: two bf16 or fp16, or one tf32.
template <auto TO_FLOAT, auto FROM_FLOAT>
struct Half {
  static constexpr int count = 2;
  GPT2_INLINE static float get(uint32_t bits, int i) { return TO_FLOAT(static_cast<unsigned short>(bits >> 16 * i)); }
  static uint32_t put(float value) { return FROM_FLOAT(value); }
};
using bf16 = Half<bf16_to_float, float_to_bf16>;
using f16 = Half<fp16_to_float, float_to_fp16>;
// A tf32 number is an fp32 number whose lower 13 bits tensor cores ignore.
struct tf32 {
  static constexpr int count = 1;
  GPT2_INLINE static float get(uint32_t bits, int) { return __uint_as_float(bits & 0xffffe000u); }
};
template <class T>
uint32_t packed(float high, float low) {
  return T::put(high) << 16 | T::put(low);
}
// Rounds fp32 to tf32, whose lower 13 bits are 0; ties away from zero.
inline float to_tf32(float value) {
  const unsigned bits = __float_as_uint(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? value : __uint_as_float((bits + 0x1000) & 0xffffe000u);
}

// mma.sync.m16n8: d = a * b + c. A register has COUNT elements. Lane l, with g = l / 4 and p = l % 4, holds elements p COUNT to p
// COUNT + COUNT - 1 of each step of 4 COUNT along k: rows g and g + 8 of a in turn, column g of b. Of c and d the lane holds columns
// 2p and 2p + 1 of rows g and g + 8: in four registers, or with fp16 two values in each of two. Sums are fp64, rounded once.
template <class T, int STEPS, class C, int REGISTERS, class... D>
GPT2_UNCHECKED void multiply(const uint32_t (&a)[2 * STEPS], const uint32_t (&b)[STEPS], const C (&c)[REGISTERS], D &...d) {
  struct Operands {
    uint32_t a[2 * STEPS], b[STEPS];
  } own;
  __builtin_memcpy(own.a, a, sizeof a);
  __builtin_memcpy(own.b, b, sizeof b);
  constexpr bool is_fp16 = REGISTERS == 2;
  double sums[4];
  const Operands *lanes[32];
  meet(own, lanes, GPT2_CALLER);
  const unsigned group = lane() / 4, pair = lane() % 4 * 2;
  for (int i = 0; i < 4; i++) {
    if constexpr (is_fp16) sums[i] = f16::get(c[i / 2], i % 2);
    else sums[i] = c[i];
    for (int step = 0; step < STEPS; step++) {
      for (int k = 0; k < 4 * T::count; k++) {
        const int at = k / T::count, element = k % T::count;
        sums[i] += double(T::get(lanes[4 * group + at]->a[2 * step + i / 2], element)) *
                   T::get(lanes[4 * (pair + i % 2) + at]->b[step], element);
      }
    }
  }
  part(GPT2_CALLER);
  int i = 0;
  if constexpr (is_fp16) {
    ((set(d, packed<f16>(to_odd(sums[i + 1]), to_odd(sums[i]))), i += 2), ...);
  } else {
    (set(d, C(sums[i++])), ...);
  }
}

}  // namespace ptx
}  // namespace gpt2_emulator
