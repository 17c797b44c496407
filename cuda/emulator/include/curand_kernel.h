// cuRAND in kernels. Philox gives the same numbers as on a GPU. The other generators are Philox here, so their numbers differ.
#pragma once

#include "curand.h"

struct curandStatePhilox4_32_10 {
  unsigned key[2], counter[4], output[4], taken;
  bool has_normal, has_wide;
  float normal;
  double wide;
};
// A separate type, so that a program can overload functions for both states.
struct curandState : curandStatePhilox4_32_10 {};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
typedef curandState curandState_t, curandStateXORWOW, curandStateXORWOW_t, curandStateMRG32k3a, curandStateMRG32k3a_t;

namespace gpt2_emulator {

inline void philox(const unsigned (&counter)[4], const unsigned (&key)[2], unsigned (&out)[4]) {
  unsigned a = counter[0], b = counter[1], c = counter[2], d = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
    const unsigned long long left = 0xd2511f53ull * a, right = 0xcd9e8d57ull * c;
    a = unsigned(right >> 32) ^ b ^ k0;
    c = unsigned(left >> 32) ^ d ^ k1;
    b = unsigned(right);
    d = unsigned(left);
  }
  out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}
// Maps 32 random bits to a number in (0, 1].
inline float uniform(unsigned bits) { return float(bits) * 0x1p-32f + 0x1p-33f; }
inline float2 box_muller(unsigned x, unsigned y) {
  const float angle = float(y) * (0x1p-32f * 6.2831855f) + 0x1p-32f * 3.1415927f, size = sqrtf(-2.0f * logf(uniform(x)));
  return {sinf(angle) * size, cosf(angle) * size};
}

}  // namespace gpt2_emulator

inline void skipahead(unsigned long long count, curandStatePhilox4_32_10 *state) {
  unsigned long long position = state->taken + (count & 3), low = state->counter[0] | (unsigned long long)(state->counter[1]) << 32;
  low += count / 4 + position / 4;
  state->taken = unsigned(position & 3);
  state->counter[0] = unsigned(low), state->counter[1] = unsigned(low >> 32);
  gpt2_emulator::philox(state->counter, state->key, state->output);
}
inline void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                        curandStatePhilox4_32_10 *state) {
  *state = {{unsigned(seed), unsigned(seed >> 32)}, {0, 0, unsigned(sequence), unsigned(sequence >> 32)}, {}, 0, false, false, 0, 0};
  skipahead(offset, state);
}
inline unsigned curand(curandStatePhilox4_32_10 *state) {
  const unsigned result = state->output[state->taken];
  skipahead(1, state);
  return result;
}
inline float curand_uniform(curandStatePhilox4_32_10 *state) { return gpt2_emulator::uniform(curand(state)); }
inline double curand_uniform_double(curandStatePhilox4_32_10 *state) {
  const unsigned long long low = curand(state);
  return double(low ^ (unsigned long long)(curand(state)) << 21) * 0x1p-53 + 0x1p-54;
}
inline float2 curand_normal2(curandStatePhilox4_32_10 *state) {
  const unsigned x = curand(state);
  return gpt2_emulator::box_muller(x, curand(state));
}
inline double2 curand_normal2_double(curandStatePhilox4_32_10 *state) {
  const double size = sqrt(-2 * log(curand_uniform_double(state))), angle = 2 * curand_uniform_double(state);
  return {sinpi(angle) * size, cospi(angle) * size};
}
#define GPT2_NORMAL(T, suffix, has, kept)                              \
  inline T curand_normal##suffix(curandStatePhilox4_32_10 *state) {    \
    state->has = !state->has;                                          \
    if (!state->has) return state->kept;                               \
    const auto made = curand_normal2##suffix(state);                   \
    state->kept = made.y;                                              \
    return made.x;                                                     \
  }
GPT2_NORMAL(float, , has_normal, normal) GPT2_NORMAL(double, _double, has_wide, wide)
// Braces evaluate their expressions from left to right.
#define GPT2_FOUR(T, name) \
  inline T name##4(curandStatePhilox4_32_10 *state) { return {name(state), name(state), name(state), name(state)}; }
GPT2_FOUR(uint4, curand) GPT2_FOUR(float4, curand_uniform)
inline float4 curand_normal4(curandStatePhilox4_32_10 *state) {
  const float2 a = curand_normal2(state), b = curand_normal2(state);
  return {a.x, a.y, b.x, b.y};
}
