// CUDA's device functions on numbers: minima, bits, conversions, rounding, mathematics. Included by functions.h. Functions that C has,
// too, come from the system's <math.h>.
#pragma once

#include <fenv.h>
#include <stdlib.h>

namespace gpt2_emulator {

// sum + the dot product of COUNT elements of a and b, from element `first` of b.
template <class A, class B, int COUNT, class Word, class Other, class Sum>
Sum dot(Word a, Other b, Sum sum, int first = 0) {
  A left[sizeof(Word) / sizeof(A)];
  B right[sizeof(Other) / sizeof(B)];
  __builtin_memcpy(left, &a, sizeof a);
  __builtin_memcpy(right, &b, sizeof b);
  for (int i = 0; i < COUNT; i++) sum += Sum(left[i]) * Sum(right[first + i]);
  return sum;
}

// Converts a float without a fraction to an integer. Values out of range become the smallest or largest integer. NaN becomes 0, or
// the number in which only the highest bit is 1, if one of the types has 64 bits.
template <class To, class From>
To saturated(From value) {
  constexpr bool is_signed = To(-1) < To(0);
  constexpr To largest = To(is_signed ? (1ull << (8 * sizeof(To) - 1)) - 1 : ~0ull), smallest = is_signed ? To(~largest) : To(0);
  if (value != value) return sizeof(To) == 8 || sizeof(From) == 8 ? To(1ull << (8 * sizeof(To) - 1)) : To(0);
  if (value <= From(smallest)) return smallest;
  return value >= From(largest) ? largest : To(value);
}

// The result of a computation in a rounding mode (FE_TONEAREST, ...).
template <class Compute>
__attribute__((noinline)) auto rounded(int mode, const Compute &compute) {
  const int before = fegetround();
  fesetround(mode);
  const volatile auto result = compute();
  fesetround(before);
  return decltype(compute())(result);
}

// Returns the value through a volatile, so that the compiler does not contract its operation with another to a fused multiply-add.
template <class T>
T uncontracted(T value) {
  const volatile T result = value;
  return result;
}

// The modified Bessel function of order 0 or 1, whose series has positive terms only.
inline double bessel_i(int order, double x) {
  double term = order ? x / 2 : 1, sum = term;
  for (int i = 1; fabs(term) > 1e-17 * fabs(sum); i++) sum += term *= x * x / 4 / i / (i + order);
  return sum;
}

}  // namespace gpt2_emulator

// ---------------------------------------------------------------- minima and maxima

#define GPT2_MIN_MAX(T)                            \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
GPT2_MIN_MAX(int) GPT2_MIN_MAX(unsigned) GPT2_MIN_MAX(long) GPT2_MIN_MAX(unsigned long)
GPT2_MIN_MAX(long long) GPT2_MIN_MAX(unsigned long long)
#define GPT2_FLOAT_MIN_MAX(T, A, B)               \
  inline T min(A a, B b) { return fmin(T(a), T(b)); } \
  inline T max(A a, B b) { return fmax(T(a), T(b)); }
GPT2_FLOAT_MIN_MAX(double, double, double) GPT2_FLOAT_MIN_MAX(double, float, double)
GPT2_FLOAT_MIN_MAX(double, double, float) GPT2_FLOAT_MIN_MAX(float, float, float)
// CUDA compares a signed and an unsigned integer as unsigned.
#define GPT2_MIXED(S, U)                                    \
  inline U min(S a, U b) { return min((U)(a), b); }           \
  inline U min(U a, S b) { return min(a, (U)(b)); }           \
  inline U max(S a, U b) { return max((U)(a), b); }           \
  inline U max(U a, S b) { return max(a, (U)(b)); }
GPT2_MIXED(int, unsigned) GPT2_MIXED(long, unsigned long) GPT2_MIXED(long long, unsigned long long)
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }

// ---------------------------------------------------------------- integers and bits

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(bits) : 32; }
inline int __clzll(long long bits) { return bits ? __builtin_clzll(bits) : 64; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline unsigned long long __brevll(unsigned long long bits) {
  unsigned long long result = 0;
  for (int i = 0; i < 64; i++) result |= (bits >> i & 1) << (63 - i);
  return result;
}
inline unsigned __brev(unsigned bits) { return unsigned(__brevll(bits) >> 32); }
// Defines a function of two integers, computed in a wider type: the upper half of their product, or half of their sum.
#define GPT2_WIDE(name, T, Wide, expression) \
  inline T name(T left, T right) { const Wide a = left, b = right; return (T)(expression); }
GPT2_WIDE(__mulhi, int, long long, a * b >> 32) GPT2_WIDE(__umulhi, unsigned, unsigned long long, a * b >> 32)
GPT2_WIDE(__mul64hi, long long, __int128, a * b >> 64)
GPT2_WIDE(__umul64hi, unsigned long long, unsigned __int128, a * b >> 64)
GPT2_WIDE(__hadd, int, long long, (a + b) >> 1) GPT2_WIDE(__rhadd, int, long long, (a + b + 1) >> 1)
GPT2_WIDE(__uhadd, unsigned, unsigned long long, (a + b) >> 1)
GPT2_WIDE(__urhadd, unsigned, unsigned long long, (a + b + 1) >> 1)
// The lower 32 bits of the product of two integers of 24 bits.
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mul24(int a, int b) { return int(unsigned(int(unsigned(a) << 8) >> 8) * unsigned(int(unsigned(b) << 8) >> 8)); }
inline unsigned __sad(int a, int b, unsigned sum) { return sum + (a < b ? unsigned(b) - unsigned(a) : unsigned(a) - unsigned(b)); }
inline unsigned __usad(unsigned a, unsigned b, unsigned sum) { return sum + (a < b ? b - a : a - b); }
// Byte i of the result is the byte of b:a whose number is in bits 4i to 4i + 2 of the selector.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long both = (unsigned long long)(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) result |= unsigned(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return result;
}
// Shifts the 64 bits high:low. With suffix c, a shift over 32 counts as 32; otherwise the shift is taken modulo 32.
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)(high) << 32 | low) << min(shift, 32u) >> 32);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)(high) << 32 | low) >> min(shift, 32u));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) { return __funnelshift_lc(low, high, shift & 31); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) { return __funnelshift_rc(low, high, shift & 31); }

#define GPT2_DOT(A, B, Sum, Word2, Word4)                                                                    \
  inline Sum __dp4a(Word4 a, Word4 b, Sum sum) { return gpt2_emulator::dot<B, B, 4>(a, b, sum); }            \
  inline Sum __dp2a_lo(Word2 a, Word4 b, Sum sum) { return gpt2_emulator::dot<A, B, 2>(a, b, sum, 0); }      \
  inline Sum __dp2a_hi(Word2 a, Word4 b, Sum sum) { return gpt2_emulator::dot<A, B, 2>(a, b, sum, 2); }
GPT2_DOT(short, signed char, int, int, int)
GPT2_DOT(short, signed char, int, short2, char4)
GPT2_DOT(unsigned short, unsigned char, unsigned, unsigned, unsigned)
GPT2_DOT(unsigned short, unsigned char, unsigned, ushort2, uchar4)

// ---------------------------------------------------------------- bits of floats, conversions

#define GPT2_BITS(name, From, To) \
  inline To name(From value) { return gpt2_emulator::from_bits<To>(gpt2_emulator::bits_of(value)); }
GPT2_BITS(__float_as_int, float, int) GPT2_BITS(__float_as_uint, float, unsigned) GPT2_BITS(__int_as_float, int, float)
GPT2_BITS(__uint_as_float, unsigned, float) GPT2_BITS(__double_as_longlong, double, long long)
GPT2_BITS(__longlong_as_double, long long, double)
inline int __double2hiint(double value) { return int(__double_as_longlong(value) >> 32); }
inline int __double2loint(double value) { return int(__double_as_longlong(value)); }
inline double __hiloint2double(int high, int low) { return __longlong_as_double((long long)(high) << 32 | unsigned(low)); }

// Expands X for each rounding of CUDA: suffix, mode of <fenv.h>, function that rounds to an integral value.
#define GPT2_ROUNDINGS(X, ...)                                                                        \
  X(_rn, FE_TONEAREST, rint, __VA_ARGS__) X(_rz, FE_TOWARDZERO, trunc, __VA_ARGS__)                   \
  X(_rd, FE_DOWNWARD, floor, __VA_ARGS__) X(_ru, FE_UPWARD, ceil, __VA_ARGS__)
#define GPT2_TO_INTEGER(suffix, mode, round, name, From, To) \
  inline To name##suffix(From value) { return gpt2_emulator::saturated<To>(round(value)); }
#define GPT2_ROUNDED(suffix, mode, round, name, To, parameters, ...)                               \
  inline To name##suffix parameters {                                                              \
    return mode == FE_TONEAREST ? To(__VA_ARGS__) : gpt2_emulator::rounded(mode, [&] { return To(__VA_ARGS__); }); \
  }
#define GPT2_CONVERSIONS(short_name, T)                                                \
  GPT2_ROUNDINGS(GPT2_TO_INTEGER, __float2##short_name, float, T)                      \
  GPT2_ROUNDINGS(GPT2_TO_INTEGER, __double2##short_name, double, T)                    \
  GPT2_ROUNDINGS(GPT2_ROUNDED, __##short_name##2float, float, (T value), value)        \
  GPT2_ROUNDINGS(GPT2_ROUNDED, __##short_name##2double, double, (T value), value)
GPT2_CONVERSIONS(int, int) GPT2_CONVERSIONS(uint, unsigned) GPT2_CONVERSIONS(ll, long long)
GPT2_CONVERSIONS(ull, unsigned long long)
GPT2_ROUNDINGS(GPT2_ROUNDED, __double2float, float, (double value), value)

// ---------------------------------------------------------------- arithmetic with a rounding mode in its name

#define GPT2_ARITHMETIC(T, prefix, fma_name)                                                               \
  GPT2_ROUNDINGS(GPT2_ROUNDED, prefix##add, T, (T a, T b), gpt2_emulator::uncontracted(a) + gpt2_emulator::uncontracted(b)) \
  GPT2_ROUNDINGS(GPT2_ROUNDED, prefix##sub, T, (T a, T b), gpt2_emulator::uncontracted(a) - gpt2_emulator::uncontracted(b)) \
  GPT2_ROUNDINGS(GPT2_ROUNDED, prefix##mul, T, (T a, T b), gpt2_emulator::uncontracted(a * b))              \
  GPT2_ROUNDINGS(GPT2_ROUNDED, prefix##div, T, (T a, T b), a / b)                                          \
  GPT2_ROUNDINGS(GPT2_ROUNDED, prefix##rcp, T, (T x), 1 / x)                                               \
  GPT2_ROUNDINGS(GPT2_ROUNDED, prefix##sqrt, T, (T x), ::sqrt(x))                                          \
  GPT2_ROUNDINGS(GPT2_ROUNDED, fma_name, T, (T a, T b, T c), ::fma(a, b, c))
GPT2_ARITHMETIC(float, __f, __fmaf)
GPT2_ARITHMETIC(double, __d, __fma)

// ---------------------------------------------------------------- mathematics

// Defines a function of doubles, and from it the function of floats.
#define GPT2_MATH(name, parameters, ...)                                     \
  inline double name parameters { __VA_ARGS__ }                              \
  template <class... T>                                                      \
  inline float name##f(T... values) {                                        \
    return float(name(double(values)...));                                   \
  }
#define GPT2_MATH1(name, ...)                     \
  GPT2_MATH(name, (double x), __VA_ARGS__)        \
  inline float name(float x) { return name##f(x); }
GPT2_MATH1(rcbrt, return 1 / cbrt(x);)
// `turn` is x in half turns, reduced to the range -1 to 1: remainder() is exact, and so is the reflection of values over 0.5.
GPT2_MATH1(sinpi, const double turn = remainder(x, 2); return sin(M_PI * (fabs(turn) > 0.5 ? copysign(1, turn) - turn : turn));)
GPT2_MATH1(cospi, return sinpi(0.5 - fabs(remainder(x, 2)));)
GPT2_MATH(rhypot, (double x, double y), return 1 / hypot(x, y);)
GPT2_MATH(norm3d, (double x, double y, double z), return hypot(hypot(x, y), z);)
GPT2_MATH(rnorm3d, (double x, double y, double z), return 1 / norm3d(x, y, z);)
GPT2_MATH(norm4d, (double x, double y, double z, double w), return hypot(hypot(x, y), hypot(z, w));)
GPT2_MATH(rnorm4d, (double x, double y, double z, double w), return 1 / norm4d(x, y, z, w);)
GPT2_MATH1(erfcx, if (x < 25) return exp(x * x) * erfc(x);
           const double square = x * x;
           return (1 - 0.5 / square + 0.75 / square / square) / x * M_2_SQRTPI / 2;)
// Starts from Abramowitz and Stegun 26.2.23, whose error is 4.5e-4, and refines it by three steps of Halley.
GPT2_MATH1(erfcinv, if (x > 1) return -erfcinv(2 - x);
           if (!(x > 0)) return x == 0 ? INFINITY : NAN;
           const double t = sqrt(-2 * log(x / 2));
           double y = (t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))) * M_SQRT1_2;
           for (int i = 0; i < 3; i++) {
             const double step = (erfc(y) - x) * exp(y * y) / M_2_SQRTPI;
             y += step / (1 - step * y);
           }
           return y;)
GPT2_MATH1(erfinv, if (fabs(x) > 0.5) return copysign(erfcinv(1 - fabs(x)), x);
           double y = x / M_2_SQRTPI;
           for (int i = 0; i < 4; i++) y -= (erf(y) - x) * exp(y * y) / M_2_SQRTPI;
           return y;)
GPT2_MATH1(normcdf, return erfc(-x * M_SQRT1_2) / 2;)
GPT2_MATH1(normcdfinv, return -erfcinv(2 * x) / M_SQRT1_2;)
GPT2_MATH1(cyl_bessel_i0, return gpt2_emulator::bessel_i(0, x);)
GPT2_MATH1(cyl_bessel_i1, return gpt2_emulator::bessel_i(1, x);)
template <class T>
GPT2_INLINE T gpt2_norm(int count, const T *values) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum = hypot(sum, double(values[i]));
  return T(sum);
}
#define GPT2_NORM(name, T, ...) GPT2_INLINE T name(int count, const T *values) { return __VA_ARGS__ gpt2_norm(count, values); }
GPT2_NORM(norm, double) GPT2_NORM(rnorm, double, 1 /) GPT2_NORM(normf, float) GPT2_NORM(rnormf, float, 1 /)
GPT2_INLINE void sincospi(double x, double *sine, double *cosine) { *sine = sinpi(x), *cosine = cospi(x); }
GPT2_INLINE void sincospif(float x, float *sine, float *cosine) { *sine = sinpif(x), *cosine = cospif(x); }
GPT2_INLINE void __sincosf(float x, float *sine, float *cosine) { *sine = sinf(x), *cosine = cosf(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
#define GPT2_FAST(name, parameters, value) inline float name parameters { return value; }
GPT2_FAST(__frsqrt_rn, (float x), rsqrtf(x)) GPT2_FAST(__saturatef, (float x), fminf(fmaxf(x, 0.0f), 1.0f))
GPT2_FAST(__fdividef, (float a, float b), a / b) GPT2_FAST(fdividef, (float a, float b), a / b)
GPT2_FAST(__powf, (float x, float y), powf(x, y)) GPT2_FAST(__exp10f, (float x), powf(10.0f, x))
GPT2_FAST(__expf, (float x), expf(x)) GPT2_FAST(__logf, (float x), logf(x)) GPT2_FAST(__log2f, (float x), log2f(x))
GPT2_FAST(__log10f, (float x), log10f(x)) GPT2_FAST(__sinf, (float x), sinf(x)) GPT2_FAST(__cosf, (float x), cosf(x))
GPT2_FAST(__tanf, (float x), tanf(x)) GPT2_FAST(__tanhf, (float x), tanhf(x))
