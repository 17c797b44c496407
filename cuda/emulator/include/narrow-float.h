// Macros that define fp16 or bf16, its pairs, and CUDA's functions of both. Operations compute in fp32 and round the result.
#pragma once

namespace gpt2_emulator {

GPT2_INLINE float bf16_to_float(unsigned short bits) { return __uint_as_float(unsigned(bits) << 16); }
// Rounds to nearest, ties to even.
inline unsigned short float_to_bf16(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The multiplication by 2^112 corrects the bias of the exponent, 15 in fp16 and 127 in fp32, also for subnormal numbers.
GPT2_INLINE float fp16_to_float(unsigned short bits) {
  const unsigned sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
  if (rest >= 0x0f800000) return __uint_as_float(sign | rest | 0x7f800000);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest) * 0x1p112f));
}
// Rounds to nearest, ties to even.
inline unsigned short float_to_fp16(float value) {
  const unsigned short sign = __float_as_uint(value) >> 16 & 0x8000;
  const float size = fabsf(value);
  if (value != value) return 0x7fff;
  if (size >= 65520.0f) return sign | 0x7c00;
  // Below the smallest normal number, 2^-14, fp16 has steps of 2^-24, as fp32 has from 0.5 to 1.
  if (size < 0x1p-14f) return sign | (__float_as_uint(size + 0.5f) - __float_as_uint(0.5f));
  const unsigned bits = __float_as_uint(size) - (112u << 23);
  return sign | ((bits + 0xfff + (bits >> 13 & 1)) >> 13);
}

// Rounds to odd: an inexact value becomes the fp32 neighbour whose last bit is odd. A second rounding, to 16 bits, is then correct.
inline float to_odd(double value) {
  const float near = float(value);
  if (near == value || value != value) return near;
  return __uint_as_float((__float_as_uint(near) - (fabs(double(near)) > fabs(value))) | 1);
}

// `near`, the 16-bit float nearest to `value`, or its neighbour in the direction of FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO.
template <class Narrow>
Narrow directed(Narrow near, float value, int mode) {
  const float rounded = near;
  const bool is_positive = value > 0, is_above = rounded > value, is_below = rounded < value;
  if (mode == FE_TOWARDZERO) mode = is_positive ? FE_DOWNWARD : FE_UPWARD;
  if (mode == FE_DOWNWARD && is_above) near.bits += is_positive ? -1 : near.bits == 0x8000 ? -0x7fff : 1;
  if (mode == FE_UPWARD && is_below) near.bits += is_positive ? 1 : near.bits == 0 ? 0x8001 : -1;
  return near;
}

}  // namespace gpt2_emulator

// Defines the type from its name and its conversions to and from fp32.
#define GPT2_NARROW_FLOAT(name, to_float, from_float)                                                    \
  struct name {                                                                                          \
    unsigned short bits;                                                                                 \
    name() = default;                                                                                    \
    name(float value) : bits(from_float(value)) {}                                                       \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                                \
    name(T value) : bits(from_float(gpt2_emulator::to_odd(double(value)))) {}                            \
    GPT2_INLINE operator float() const { return to_float(bits); }                                        \
  };                                                                                                     \
  struct alignas(4) name##2 {                                                                            \
    name x, y;                                                                                           \
    name##2() = default;                                                                                 \
    name##2(name x, name y) : x(x), y(y) {}                                                              \
  };                                                                                                     \
  GPT2_NARROW_OPERATOR(name, +) GPT2_NARROW_OPERATOR(name, -) GPT2_NARROW_OPERATOR(name, *) \
  GPT2_NARROW_OPERATOR(name, /) \
  inline name operator-(name a) { return -float(a); }                                                    \
  inline name##2 operator-(name##2 a) { return {-a.x, -a.y}; }                                           \
  inline name &operator++(name &a) { return a += 1.0f; }                                                 \
  inline name &operator--(name &a) { return a -= 1.0f; }                                                 \
  GPT2_NARROW_COMPARED(name, eq, ==) GPT2_NARROW_COMPARED(name, ne, !=) GPT2_NARROW_COMPARED(name, lt, <) \
  GPT2_NARROW_COMPARED(name, le, <=) GPT2_NARROW_COMPARED(name, gt, >) GPT2_NARROW_COMPARED(name, ge, >=) \
  GPT2_NARROW2(name, add, , a + b) GPT2_NARROW2(name, sub, , a - b) GPT2_NARROW2(name, mul, , a * b) \
  GPT2_NARROW2(name, add, _rn, a + b) GPT2_NARROW2(name, sub, _rn, a - b) GPT2_NARROW2(name, mul, _rn, a * b) \
  GPT2_NARROW2(name, add, _sat, __saturatef(a + b)) GPT2_NARROW2(name, sub, _sat, __saturatef(a - b)) \
  GPT2_NARROW2(name, mul, _sat, __saturatef(a * b)) GPT2_NARROW2(name, max, , fmaxf(a, b)) \
  GPT2_NARROW2(name, min, , fminf(a, b)) GPT2_NARROW2(name, max, _nan, a != a || b != b ? NAN : fmaxf(a, b)) \
  GPT2_NARROW2(name, min, _nan, a != a || b != b ? NAN : fminf(a, b)) \
  inline name __hdiv(name a, name b) { return a / b; }                                                   \
  inline name##2 __h2div(name##2 a, name##2 b) { return a / b; }                                         \
  GPT2_NARROW3(name, , fmaf(a, b, c)) GPT2_NARROW3(name, _sat, __saturatef(fmaf(a, b, c))) \
  GPT2_NARROW3(name, _relu, fmaxf(fmaf(a, b, c), 0)) \
  inline bool __hisnan(name a) { return float(a) != float(a); }                                          \
  inline int __hisinf(name a) { return fabsf(a) == INFINITY ? float(a) > 0 ? 1 : -1 : 0; }               \
  inline name##2 __hisnan2(name##2 a) { return {__hisnan(a.x), __hisnan(a.y)}; }                         \
  inline name __hneg(name a) { return -a; }                                                              \
  inline name##2 __hneg2(name##2 a) { return -a; }                                                       \
  inline name __habs(name a) { return fabsf(a); }                                                        \
  inline name##2 __habs2(name##2 a) { return {fabsf(a.x), fabsf(a.y)}; }                                 \
  GPT2_NARROW1(name, exp, expf(a)) GPT2_NARROW1(name, exp2, exp2f(a)) GPT2_NARROW1(name, exp10, __exp10f(a)) \
  GPT2_NARROW1(name, log, logf(a)) GPT2_NARROW1(name, log2, log2f(a)) GPT2_NARROW1(name, log10, log10f(a)) \
  GPT2_NARROW1(name, sqrt, sqrtf(a)) GPT2_NARROW1(name, rsqrt, rsqrtf(a)) GPT2_NARROW1(name, rcp, 1 / a) \
  GPT2_NARROW1(name, sin, sinf(a)) GPT2_NARROW1(name, cos, cosf(a)) GPT2_NARROW1(name, tanh, tanhf(a)) \
  GPT2_NARROW1(name, tanh_approx, tanhf(a)) GPT2_NARROW1(name, ceil, ceilf(a)) GPT2_NARROW1(name, floor, floorf(a)) \
  GPT2_NARROW1(name, rint, rintf(a)) GPT2_NARROW1(name, trunc, truncf(a)) \
  inline float __low2float(name##2 a) { return a.x; }                                                    \
  inline float __high2float(name##2 a) { return a.y; }                                                   \
  inline name##2 __lowhigh2highlow(name##2 a) { return {a.y, a.x}; }

#define GPT2_NARROW_OPERATOR(name, sign)                                                       \
  inline name operator sign(name a, name b) { return float(a) sign float(b); }                 \
  inline name##2 operator sign(name##2 a, name##2 b) { return {a.x sign b.x, a.y sign b.y}; }  \
  GPT2_INLINE name &operator sign##=(name &a, name b) { return a = a sign b; }                 \
  GPT2_INLINE name##2 &operator sign##=(name##2 &a, name##2 b) { return a = a sign b; }
// Comparisons: __heq, __heq2 and so on. With u: also true if an operand is NaN. __hb: whether both elements of a pair are true.
#define GPT2_NARROW_COMPARED(name, is, sign)                                                             \
  inline bool operator sign(name a, name b) { return float(a) sign float(b); }                           \
  inline bool __h##is(name a, name b) { return a sign b; }                                               \
  inline bool __h##is##u(name a, name b) { return a sign b || float(a) != float(a) || float(b) != float(b); }    \
  inline name##2 __h##is##2(name##2 a, name##2 b) { return {a.x sign b.x, a.y sign b.y}; }               \
  inline name##2 __h##is##u2(name##2 a, name##2 b) { return {__h##is##u(a.x, b.x), __h##is##u(a.y, b.y)}; } \
  inline bool __hb##is##2(name##2 a, name##2 b) { return a.x sign b.x && a.y sign b.y; }                 \
  inline bool __hb##is##u2(name##2 a, name##2 b) { return __h##is##u(a.x, b.x) && __h##is##u(a.y, b.y); } \
  inline unsigned __h##is##2_mask(name##2 a, name##2 b) {                                                \
    return (a.x sign b.x ? 0xffffu : 0) | (a.y sign b.y ? 0xffff0000u : 0);                              \
  }
#define GPT2_NARROW1(name, function, ...)                                                     \
  inline name h##function(name value) { const float a = value; return __VA_ARGS__; }          \
  inline name##2 h2##function(name##2 a) { return {h##function(a.x), h##function(a.y)}; }
// A function of two operands, and of pairs. `end`, such as _sat, comes last in both names: __hadd_sat, __hadd2_sat.
#define GPT2_NARROW2(name, function, end, ...)                                                \
  inline name __h##function##end(name left, name right) { const float a = left, b = right; return __VA_ARGS__; } \
  inline name##2 __h##function##2##end(name##2 a, name##2 b) {                                \
    return {__h##function##end(a.x, b.x), __h##function##end(a.y, b.y)};                      \
  }
#define GPT2_NARROW3(name, end, ...)                                                          \
  inline name __hfma##end(name left, name right, name other) { const float a = left, b = right, c = other; return __VA_ARGS__; } \
  inline name##2 __hfma2##end(name##2 a, name##2 b, name##2 c) {                              \
    return {__hfma##end(a.x, b.x, c.x), __hfma##end(a.y, b.y, c.y)};                          \
  }

// Conversions. `short_name` is the type in names of scalars (half, bfloat16), `pair` in names of pairs (half2, bfloat162).
#define GPT2_NARROW_DIRECTED(suffix, mode, round, short_name, name) \
  inline name __float2##short_name##suffix(float value) { return gpt2_emulator::directed(name(value), value, mode); }
#define GPT2_NARROW_FROM(suffix, mode, round, function, name, T) \
  inline name function##suffix(T value) { return gpt2_emulator::directed(name(value), gpt2_emulator::to_odd(double(value)), mode); }
#define GPT2_NARROW_INTEGER(short_name, name, integer, T)                         \
  GPT2_ROUNDINGS(GPT2_TO_INTEGER, __##short_name##2##integer, name, T)            \
  GPT2_ROUNDINGS(GPT2_NARROW_FROM, __##integer##2##short_name, name, T)
#define GPT2_NARROW_CONVERSIONS(name, short_name, pair)                                                  \
  GPT2_ROUNDINGS(GPT2_NARROW_DIRECTED, short_name, name)                                                 \
  GPT2_NARROW_INTEGER(short_name, name, int, int) GPT2_NARROW_INTEGER(short_name, name, uint, unsigned) \
  GPT2_NARROW_INTEGER(short_name, name, short, short) GPT2_NARROW_INTEGER(short_name, name, ushort, unsigned short) \
  GPT2_NARROW_INTEGER(short_name, name, ll, long long) \
  GPT2_NARROW_INTEGER(short_name, name, ull, unsigned long long) \
  inline float __##short_name##2float(name value) { return value; }                                      \
  inline name __float2##short_name(float value) { return value; }                                        \
  inline name __double2##short_name(double value) { return value; }                                      \
  inline float2 __##pair##2float2(name##2 a) { return {a.x, a.y}; }                                      \
  inline name##2 __float22##pair##_rn(float2 a) { return {a.x, a.y}; }                                   \
  inline name##2 __floats2##pair##_rn(float x, float y) { return {x, y}; }                               \
  inline name##2 __float2##pair##_rn(float x) { return {x, x}; }                                         \
  inline name##2 __halves2##pair(name x, name y) { return {x, y}; }                                      \
  inline name##2 make_##pair(name x, name y) { return {x, y}; }                                          \
  inline name##2 __##short_name##2##pair(name a) { return {a, a}; }                                      \
  inline name __low2##short_name(name##2 a) { return a.x; }                                              \
  inline name __high2##short_name(name##2 a) { return a.y; }                                             \
  inline name##2 __low2##pair(name##2 a) { return {a.x, a.x}; }                                          \
  inline name##2 __high2##pair(name##2 a) { return {a.y, a.y}; }                                         \
  inline name##2 __lows2##pair(name##2 a, name##2 b) { return {a.x, b.x}; }                              \
  inline name##2 __highs2##pair(name##2 a, name##2 b) { return {a.y, b.y}; }                             \
  inline short __##short_name##_as_short(name a) { return short(a.bits); }                               \
  inline unsigned short __##short_name##_as_ushort(name a) { return a.bits; }                            \
  inline name __short_as_##short_name(short bits) { return gpt2_emulator::from_bits<name>(gpt2_emulator::bits_of(bits)); } \
  inline name __ushort_as_##short_name(unsigned short bits) { return __short_as_##short_name(short(bits)); }
