// SIMD vectors of floats, as wide as the code path's registers, by the compiler's vector extensions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace gpt2::GPT2_PATH {

// WIDTH: floats in a vector register. REGISTERS: the number of vector registers.
#if defined(__AVX512F__)
constexpr int WIDTH = 16, REGISTERS = 32;
#elif defined(__AVX2__)
constexpr int WIDTH = 8, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int WIDTH = 4, REGISTERS = 32;
#else
constexpr int WIDTH = 4, REGISTERS = 16;
#endif

typedef float Vector __attribute__((vector_size(WIDTH * sizeof(float)), aligned(sizeof(float)), may_alias));

// Copies `count` floats. If `to` is aligned, whole vectors bypass the caches, so that memory is not read before it is
// written. Other threads see the copy after this thread's next atomic operation, with which each parallel loop ends.
inline void stream_line(float *to, const float *from, int count) {
  int done = 0;
#if defined(__AVX512F__)
  if (reinterpret_cast<uintptr_t>(to) % sizeof(__m512) == 0) {
    for (; done + WIDTH <= count; done += WIDTH) _mm512_stream_ps(to + done, _mm512_loadu_ps(from + done));
  }
#endif
  std::copy_n(from + done, count - done, to + done);
}

#if defined(__clang__)
#define GPT2_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int Indices __attribute__((vector_size(WIDTH * sizeof(int))));
#define GPT2_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Indices{__VA_ARGS__})
#endif

// A step of a transpose: lines `a` and `b`, `step` apart, exchange their off-diagonal blocks of `step` columns.
template <int step, int... column>
inline void exchange(Vector &a, Vector &b, std::integer_sequence<int, column...>) {
  const Vector low = GPT2_SHUFFLE(a, b, (column & step ? WIDTH + column - step : column)...);
  b = GPT2_SHUFFLE(a, b, (column & step ? WIDTH + column : column + step)...);
  a = low;
}

template <int step = WIDTH / 2>
inline void transpose(Vector (&lines)[WIDTH]) {
#pragma GCC unroll 16
  for (int i = 0; i < WIDTH; i++) {
    if (!(i & step)) exchange<step>(lines[i], lines[i + step], std::make_integer_sequence<int, WIDTH>{});
  }
  if constexpr (step > 1) transpose<step / 2>(lines);
}

// to[column * to_stride + line] = from[line * from_stride + column] for WIDTH lines and columns.
inline void transpose_square(float *to, size_t to_stride, const float *from, size_t from_stride) {
  Vector lines[WIDTH];
#pragma GCC unroll 16
  for (int i = 0; i < WIDTH; i++) lines[i] = *reinterpret_cast<const Vector *>(from + i * from_stride);
  transpose(lines);
#pragma GCC unroll 16
  for (int i = 0; i < WIDTH; i++) *reinterpret_cast<Vector *>(to + i * to_stride) = lines[i];
}

}  // namespace gpt2::GPT2_PATH
