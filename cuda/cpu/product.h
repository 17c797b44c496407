// Products of matrices by one thread: out[M,N] = A[M,K] * B[K,N], blocks of which are copied into a thread's memory. A
// micro-kernel keeps a tile of TILE_M x TILE_N sums in registers. It broadcasts elements of A, which is copied as it is,
// and reads vectors of B, which is packed in panels of TILE_N columns, [N / TILE_N][K][TILE_N]: of all operands, only a
// B that is contiguous along K must be transposed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace gpt2::GPT2_PATH {

// Floats in a vector register, and rows of the register tile: 14 x 2 (of 32 registers) or 6 x 2 (of 16) sums. Two
// vectors divide the widths of small models, too (128).
#if defined(__AVX512F__)
constexpr int WIDTH = 16;
constexpr int TILE_M = 14;
#elif defined(__AVX2__)
constexpr int WIDTH = 8;
constexpr int TILE_M = 6;
#elif defined(__aarch64__)
constexpr int WIDTH = 4;
constexpr int TILE_M = 14;
#else
constexpr int WIDTH = 4;
constexpr int TILE_M = 6;
#endif
constexpr int TILE_N = 2 * WIDTH;

// A block of A of 256 x 266 (272 KiB) and a strip of B of 256 x 768 (768 KiB) stay in L2; a panel of B of 256 x 32 (32
// KiB) stays in L1 while the rows of A pass by.
constexpr int BLOCK_K = 256;
constexpr int BLOCK_M = 266 / TILE_M * TILE_M;
constexpr int BLOCK_N = 768;

// Floats from one line of a block of A to the next. A multiple of 4 KiB would put all rows of a tile into one set of L1.
constexpr int A_STRIDE = 272;
constexpr int A_FLOATS = A_STRIDE * std::max(BLOCK_K, BLOCK_M);
constexpr int B_FLOATS = BLOCK_K * BLOCK_N;

typedef float Vector __attribute__((vector_size(WIDTH * sizeof(float)), aligned(sizeof(float))));

// A matrix whose element (row, column) is at data[row * row_stride + column * column_stride]; one stride is 1.
struct View {
  const float *data;
  size_t row_stride;
  size_t column_stride;
};

// A block of A: element (m, k) is at data[m * A_STRIDE + k], or at data[k * A_STRIDE + m] where it is `transposed`.
struct BlockOfA {
  const float *data;
  bool transposed;
};

// Panels of B, of `depth` rows each.
struct Panels {
  const float *data;
  int depth;
};

// The output. A tile's sums (plus the bias, if any) replace it, or are added to it.
struct Output {
  float *data;
  size_t stride;
  const float *bias;
  bool add;

  Output at(int m, int n) const { return {data + m * stride + n, stride, bias ? bias + n : nullptr, add}; }
};

// The contiguous lines of a block of a matrix.
struct Lines {
  const float *first;
  size_t stride;
  int count, length;

  Lines(View of, int row, int rows, int column, int columns)
      : first(of.data + row * of.row_stride + column * of.column_stride),
        stride(of.column_stride == 1 ? of.row_stride : of.column_stride),
        count(of.column_stride == 1 ? rows : columns),
        length(of.column_stride == 1 ? columns : rows) {}

  void prefetch(int line) const {
    for (int i = 0; i < length; i += 16) __builtin_prefetch(first + line * stride + i, 0, 2);
  }
};

inline BlockOfA copy_a(float *to, View a, int first_m, int count_m, int k, int depth) {
  const Lines lines(a, first_m, count_m, k, depth);
  for (int line = 0; line < lines.count; line++) {
    std::memcpy(to + static_cast<size_t>(line) * A_STRIDE, lines.first + line * lines.stride,
                lines.length * sizeof(float));
  }
  return {to, a.column_stride != 1};
}

#if defined(__clang__)
#define GPT2_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int Indices __attribute__((vector_size(WIDTH * sizeof(int))));
#define GPT2_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Indices{__VA_ARGS__})
#endif

// Exchanges, of lines `a` and `b` that are `step` apart, the blocks of `step` columns beside the diagonal.
template <int step, int... column>
inline void exchange(Vector &a, Vector &b, std::integer_sequence<int, column...>) {
  const Vector low = GPT2_SHUFFLE(a, b, (column & step ? WIDTH + column - step : column)...);
  b = GPT2_SHUFFLE(a, b, (column & step ? WIDTH + column : column + step)...);
  a = low;
}

template <int step>
inline void transpose_steps(Vector (&lines)[WIDTH]) {
#pragma GCC unroll 16
  for (int i = 0; i < WIDTH; i++) {
    if (!(i & step)) exchange<step>(lines[i], lines[i + step], std::make_integer_sequence<int, WIDTH>{});
  }
  if constexpr (step > 1) transpose_steps<step / 2>(lines);
}

// to[column * to_stride + line] = from[line * from_stride + column] for WIDTH lines and columns.
inline void transpose_square(float *to, size_t to_stride, const float *from, size_t from_stride) {
  Vector lines[WIDTH];
#pragma GCC unroll 16
  for (int i = 0; i < WIDTH; i++) lines[i] = *reinterpret_cast<const Vector *>(from + i * from_stride);
  transpose_steps<WIDTH / 2>(lines);
#pragma GCC unroll 16
  for (int i = 0; i < WIDTH; i++) *reinterpret_cast<Vector *>(to + i * to_stride) = lines[i];
}

// Packs columns [first_n, first_n + count_n) of B's rows [k, k + depth); the last panel is padded with zeros. Columns of
// B are rows of the view `b`.
inline Panels pack_b(float *to, View b, int first_n, int count_n, int k, int depth) {
  const Panels packed{to, depth};
  for (int n = 0; n < count_n; n += TILE_N, to += depth * TILE_N) {
    const int columns = std::min(TILE_N, count_n - n);
    const float *from = b.data + (first_n + n) * b.row_stride + k * b.column_stride;
    int done = 0;
    if (columns == TILE_N && b.row_stride == 1) {
      for (; done < depth; done++) {
        std::memcpy(to + done * TILE_N, from + done * b.column_stride, TILE_N * sizeof(float));
      }
    } else if (columns == TILE_N) {
      for (; done + WIDTH <= depth; done += WIDTH) {
        for (int half = 0; half < TILE_N; half += WIDTH) {
          transpose_square(to + done * TILE_N + half, TILE_N, from + half * b.row_stride + done, b.row_stride);
        }
      }
    }
    for (; done < depth; done++) {
      for (int column = 0; column < TILE_N; column++) {
        to[done * TILE_N + column] = column < columns ? from[column * b.row_stride + done * b.column_stride] : 0;
      }
    }
  }
  return packed;
}

// out[rows, TILE_N] from a block of A and a panel of B.
template <bool transposed, int rows>
void micro_kernel(Output out, const float *a, const float *b, int depth) {
  // Nothing may take the address of the sums: then they would not stay in registers.
  Vector sums[rows][2] = {};
  for (int k = 0; k < depth; k++) {
    const Vector low = *reinterpret_cast<const Vector *>(b + k * TILE_N);
    const Vector high = *reinterpret_cast<const Vector *>(b + k * TILE_N + WIDTH);
#pragma GCC unroll 14
    for (int m = 0; m < rows; m++) {
      const Vector value = a[transposed ? k * A_STRIDE + m : m * A_STRIDE + k] - Vector{};
      sums[m][0] += value * low;
      sums[m][1] += value * high;
    }
  }
#pragma GCC unroll 14
  for (int m = 0; m < rows; m++) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
      Vector *to = reinterpret_cast<Vector *>(out.data + m * out.stride + v * WIDTH);
      if (out.add) {
        *to += sums[m][v];
      } else if (out.bias) {
        *to = sums[m][v] + *reinterpret_cast<const Vector *>(out.bias + v * WIDTH);
      } else {
        *to = sums[m][v];
      }
    }
  }
}

// micro_kernel() for 1 to TILE_M rows.
template <bool transposed, int... index>
inline void tile_of(int rows, Output out, const float *a, const float *b, int depth,
                    std::integer_sequence<int, index...>) {
  using Kernel = void (*)(Output, const float *, const float *, int);
  static constexpr Kernel kernels[] = {micro_kernel<transposed, index + 1>...};
  kernels[rows - 1](out, a, b, depth);
}

inline void tile(int rows, Output out, BlockOfA a, int m, const float *b, int depth) {
  constexpr auto counts = std::make_integer_sequence<int, TILE_M>{};
  if (a.transposed) {
    tile_of<true>(rows, out, a.data + m, b, depth, counts);
  } else {
    tile_of<false>(rows, out, a.data + m * A_STRIDE, b, depth, counts);
  }
}

constexpr auto nothing_between = [](int) {};

// out[count_m, count_n] from a block of A and the first `depth` rows of panels of B. between(tile) is called before each tile, from 0 on.
template <class Between = decltype(nothing_between)>
void tiles(Output out, BlockOfA a, Panels b, int depth, int count_m, int count_n,
           const Between &between = nothing_between) {
  int done = 0;
  for (int n = 0; n < count_n; n += TILE_N) {
    const int columns = std::min(TILE_N, count_n - n);
    for (int m = 0; m < count_m; m += TILE_M) {
      const int rows = std::min(TILE_M, count_m - m);
      const float *panel = b.data + static_cast<size_t>(n) * b.depth;
      const Output to = out.at(m, n);
      between(done++);
      for (int i = 0; i < rows; i++) {
        __builtin_prefetch(to.data + i * to.stride, 1);
        __builtin_prefetch(to.data + i * to.stride + columns - 1, 1);
      }
      if (columns == TILE_N) {
        tile(rows, to, a, m, panel, depth);
        continue;
      }
      float sums[TILE_M * TILE_N];
      tile(rows, {sums, TILE_N, nullptr, false}, a, m, panel, depth);
      for (int i = 0; i < rows; i++) {
        float *line = to.data + i * to.stride;
        for (int j = 0; j < columns; j++) {
          line[j] = (to.add ? line[j] : to.bias ? to.bias[j] : 0) + sums[i * TILE_N + j];
        }
      }
    }
  }
}

}  // namespace gpt2::GPT2_PATH
