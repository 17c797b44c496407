// The operators of a 16-bit float type: every operation is done in fp32 and rounded.
#pragma once

// Defines the type from its name and its conversions to and from fp32.
#define GPT2_NARROW_FLOAT(name, to_float, from_float)                                                    \
  struct name {                                                                                          \
    unsigned short bits;                                                                                 \
    name() = default;                                                                                    \
    name(float value) : bits(from_float(value)) {}                                                       \
    name(double value) : name(float(value)) {}                                                           \
    name(int value) : name(float(value)) {}                                                              \
    name(unsigned value) : name(float(value)) {}                                                         \
    name(long long value) : name(float(value)) {}                                                        \
    GPT2_INLINE operator float() const { return to_float(bits); }                                        \
    GPT2_INLINE name &operator+=(name other) { return *this = name(float(*this) + float(other)); }       \
    GPT2_INLINE name &operator-=(name other) { return *this = name(float(*this) - float(other)); }       \
    GPT2_INLINE name &operator*=(name other) { return *this = name(float(*this) * float(other)); }       \
    GPT2_INLINE name &operator/=(name other) { return *this = name(float(*this) / float(other)); }       \
  };                                                                                                     \
  struct alignas(4) name##2 {                                                                            \
    name x, y;                                                                                           \
  };                                                                                                     \
  inline name operator+(name a, name b) { return float(a) + float(b); }                                  \
  inline name operator-(name a, name b) { return float(a) - float(b); }                                  \
  inline name operator*(name a, name b) { return float(a) * float(b); }                                  \
  inline name operator/(name a, name b) { return float(a) / float(b); }                                  \
  inline name operator-(name a) { return -float(a); }                                                    \
  inline bool operator<(name a, name b) { return float(a) < float(b); }                                  \
  inline bool operator>(name a, name b) { return float(a) > float(b); }                                  \
  inline bool operator<=(name a, name b) { return float(a) <= float(b); }                                \
  inline bool operator>=(name a, name b) { return float(a) >= float(b); }                                \
  inline bool operator==(name a, name b) { return float(a) == float(b); }                                \
  inline bool operator!=(name a, name b) { return float(a) != float(b); }                                \
  inline name##2 operator+(name##2 a, name##2 b) { return {a.x + b.x, a.y + b.y}; }                      \
  inline name##2 operator-(name##2 a, name##2 b) { return {a.x - b.x, a.y - b.y}; }                      \
  inline name##2 operator*(name##2 a, name##2 b) { return {a.x * b.x, a.y * b.y}; }                      \
  inline name __hadd(name a, name b) { return a + b; }                                                   \
  inline name __hsub(name a, name b) { return a - b; }                                                   \
  inline name __hmul(name a, name b) { return a * b; }                                                   \
  inline name __hdiv(name a, name b) { return a / b; }                                                   \
  inline name __hneg(name a) { return -a; }                                                              \
  inline name __hmax(name a, name b) { return fmaxf(float(a), float(b)); }                               \
  inline name __hmin(name a, name b) { return fminf(float(a), float(b)); }                               \
  inline name __hfma(name a, name b, name c) { return fmaf(float(a), float(b), float(c)); }              \
  inline name##2 __hadd2(name##2 a, name##2 b) { return a + b; }                                         \
  inline name##2 __hmul2(name##2 a, name##2 b) { return a * b; }                                         \
  inline name##2 __hfma2(name##2 a, name##2 b, name##2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
