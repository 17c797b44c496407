// The linear layer in its three directions: each is a matmul out[M,N] = A[M,K] * B[K,N] with other layouts of A and B:
//
//   forward          out = in * weight^T     A = in,      B = weight^T
//   backward input   din = dout * weight     A = dout,    B = weight
//   backward weight  dweight = dout^T * in   A = dout^T,  B = in
//
// The algorithm is by Goto and van de Geijn (2008). K is divided into blocks. For each block, the operand of the
// shorter side is packed once for all threads; the longer side is divided into strips, which threads take and pack one
// by one. A micro-kernel keeps a tile of TILE_M x TILE_N sums in registers and reads both packed operands in order. One
// thread computes each sum in the order of K, so the result does not depend on the number of threads.
#include <algorithm>
#include <cmath>

#include "../gpt2.h"
#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

// Floats in a vector register, and rows of the register tile: 8 x 3 (of 32 registers) or 4 x 3 (of 16) sums, three
// vectors of B, one broadcast of A. Both divide GPT-2's sizes, so that it has no partial tiles.
#if defined(__AVX512F__)
constexpr int WIDTH = 16;
constexpr int TILE_M = 8;
#elif defined(__AVX2__)
constexpr int WIDTH = 8;
constexpr int TILE_M = 4;
#elif defined(__aarch64__)
constexpr int WIDTH = 4;
constexpr int TILE_M = 8;
#else
constexpr int WIDTH = 4;
constexpr int TILE_M = 4;
#endif
constexpr int VECTORS = 3;
constexpr int TILE_N = VECTORS * WIDTH;

// A strip of B of 384 x 96 is 147 KB, a strip of A of 384 x 64 is 98 KB: either fits into L2 (1 MiB) with the streamed
// operand.
constexpr int BLOCK_K = 384;
constexpr int STRIP_M = 8 * TILE_M;
constexpr int STRIP_N = 2 * TILE_N;

typedef float Vector __attribute__((vector_size(WIDTH * sizeof(float)), aligned(sizeof(float))));

// A matrix whose element (row, column) is at data[row * row_stride + column * column_stride].
struct View {
  const float *data;
  size_t row_stride;
  size_t column_stride;
};

constexpr int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// Packs `count` rows (from `first`) of K block [k, k + depth) as panels of `tile` rows: [count / tile][depth][tile],
// the last panel padded with zeros.
template <int tile>
void pack(float *packed, View source, int first, int count, int k, int depth) {
  for (int panel = 0; panel < count; panel += tile) {
    const int rows = std::min(tile, count - panel);
    const float *from = source.data + (first + panel) * source.row_stride + k * source.column_stride;
    float *to = packed + static_cast<size_t>(panel) * depth;
    if (rows == tile && source.row_stride == 1) {
      for (int d = 0; d < depth; d++) {
        for (int row = 0; row < tile; row++) to[d * tile + row] = from[d * source.column_stride + row];
      }
    } else if (rows == tile) {
      // Contiguous along K: reads full cache lines of each row before the next row.
      constexpr int run = 16;
      int d = 0;
      for (; d + run <= depth; d += run) {
        for (int row = 0; row < tile; row++) {
          const float *line = from + row * source.row_stride + d * source.column_stride;
          for (int i = 0; i < run; i++) to[(d + i) * tile + row] = line[i * source.column_stride];
        }
      }
      for (; d < depth; d++) {
        for (int row = 0; row < tile; row++)
          to[d * tile + row] = from[row * source.row_stride + d * source.column_stride];
      }
    } else {
      for (int d = 0; d < depth; d++) {
        for (int row = 0; row < tile; row++) {
          to[d * tile + row] = row < rows ? from[row * source.row_stride + d * source.column_stride] : 0;
        }
      }
    }
  }
}

// The output. A tile's sums (plus the bias, if any) replace it, or are added to it.
struct Output {
  float *data;
  size_t stride;
  const float *bias;
  bool add;
};

// out[TILE_M, TILE_N] from panels a [depth][TILE_M] and b [depth][TILE_N].
void micro_kernel(Output out, const float *a, const float *b, int depth) {
  // Nothing may take the address of the sums: then they would not stay in registers.
  Vector sums[TILE_M][VECTORS] = {};
  for (int k = 0; k < depth; k++) {
    Vector line[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) line[v] = *reinterpret_cast<const Vector *>(b + k * TILE_N + v * WIDTH);
#pragma GCC unroll 8
    for (int m = 0; m < TILE_M; m++) {
      const Vector value = a[k * TILE_M + m] - Vector{};
#pragma GCC unroll 3
      for (int v = 0; v < VECTORS; v++) sums[m][v] += value * line[v];
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < TILE_M; m++) {
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) {
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

// micro_kernel() for a tile at the output's edge: stores only `rows` x `columns`.
void ragged_micro_kernel(Output out, const float *a, const float *b, int depth, int rows, int columns) {
  float sums[TILE_M * TILE_N];
  micro_kernel({sums, TILE_N, nullptr, false}, a, b, depth);
  for (int m = 0; m < rows; m++) {
    float *to = out.data + m * out.stride;
    for (int n = 0; n < columns; n++) {
      to[n] = (out.add ? to[n] : out.bias ? out.bias[n] : 0) + sums[m * TILE_N + n];
    }
  }
}

// Computes all tiles of packed rows [first_m, first_m + count_m) and columns [first_n, first_n + count_n).
void tiles(Output out, const float *a, const float *b, int depth, int first_m, int count_m, int first_n, int count_n) {
  for (int n = 0; n < count_n; n += TILE_N) {
    for (int m = 0; m < count_m; m += TILE_M) {
      const Output tile = {out.data + (first_m + m) * out.stride + first_n + n, out.stride,
                           out.bias ? out.bias + first_n + n : nullptr, out.add};
      const float *from_a = a + static_cast<size_t>(m) * depth, *from_b = b + static_cast<size_t>(n) * depth;
      const int rows = std::min(TILE_M, count_m - m), columns = std::min(TILE_N, count_n - n);
      if (rows == TILE_M && columns == TILE_N) {
        micro_kernel(tile, from_a, from_b, depth);
      } else {
        ragged_micro_kernel(tile, from_a, from_b, depth, rows, columns);
      }
    }
  }
}

// out = a b^T: a is [M,K], b is [N,K].
void product(Task task, Output out, View a, View b, int M, int N, int K) {
  const bool wide = N >= M;
  const int shared_tile = wide ? TILE_M : TILE_N;
  const int shared_rows = round_up(wide ? M : N, shared_tile);
  const int strip = wide ? STRIP_N : STRIP_M;
  const int strips = ((wide ? N : M) + strip - 1) / strip;
  float *shared = task.scratch;
  float *unshared = shared + static_cast<size_t>(shared_rows) * BLOCK_K;
  for (int k = 0; k < K; k += BLOCK_K) {
    const int depth = std::min(BLOCK_K, K - k);
    const Output block = {out.data, out.stride, out.bias, out.add || k > 0};
    task.pool.each(shared_rows / shared_tile, [&](int64_t index) {
      const int first = static_cast<int>(index) * shared_tile;
      float *to = shared + static_cast<size_t>(first) * depth;
      if (wide) {
        pack<TILE_M>(to, a, first, std::min(TILE_M, M - first), k, depth);
      } else {
        pack<TILE_N>(to, b, first, std::min(TILE_N, N - first), k, depth);
      }
    });
    task.pool.each_free(strips, [&](int64_t index, int thread) {
      const int first = static_cast<int>(index) * strip;
      float *packed = unshared + static_cast<size_t>(thread) * strip * BLOCK_K;
      if (wide) {
        const int count = std::min(strip, N - first);
        pack<TILE_N>(packed, b, first, count, k, depth);
        tiles(block, shared, packed, depth, 0, M, first, count);
      } else {
        const int count = std::min(strip, M - first);
        pack<TILE_M>(packed, a, first, count, k, depth);
        tiles(block, packed, shared, depth, first, count, 0, N);
      }
    });
  }
}

// Floats of scratch, whichever operand is shared. Never fewer for a larger matmul than for a smaller one: a model plans
// for its largest batch and also runs smaller ones.
int64_t product_scratch(int threads, int M, int N) {
  const int64_t shared_rows = std::min(M, N) + std::max(TILE_M, TILE_N);
  const int64_t strip = std::max(STRIP_M, STRIP_N);
  return (shared_rows + threads * strip) * BLOCK_K;
}

// The forward matmul of few rows, which would take less time than packing the weight: it is read once, in place.
constexpr int FEW_ROWS = 8;

void few_rows_forward(Task task, float *out, const float *in, const float *weight, const float *bias, int N, int C,
                      int O) {
  task.pool.each(O, [&](int64_t o) {
    const float *line = weight + static_cast<size_t>(o) * C;
    for (int n = 0; n < N; n++) {
      const float *row = in + static_cast<size_t>(n) * C;
      const float sum = dot(row, line, C);
      out[static_cast<size_t>(n) * O + o] = bias ? sum + bias[o] : sum;
    }
  });
}

}  // namespace

// Sums over rows in double: a bias's gradient has as many terms as the batch has tokens.
void column_sums(Task task, float *sums, const float *values, int N, int O, bool accumulate) {
  constexpr int slab = 64;
  task.pool.each((O + slab - 1) / slab, [&](int64_t index) {
    const int first = static_cast<int>(index) * slab;
    const int width = std::min(slab, O - first);
    double total[slab] = {};
    for (int n = 0; n < N; n++) {
      const float *row = values + static_cast<size_t>(n) * O + first;
      for (int o = 0; o < width; o++) total[o] += row[o];
    }
    for (int o = 0; o < width; o++) {
      sums[first + o] = static_cast<float>((accumulate ? sums[first + o] : 0) + total[o]);
    }
  });
}

void relu_squared_forward(Task task, float *out, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) out[i] = in[i] < 0 ? 0 : in[i] * in[i];
  });
}

void matmul_forward(Task task, float *out, float *pre, const float *in, const float *weight, const float *bias,
                    const float *residual, int N, int C, int O, int activation) {
  float *sums = pre ? pre : out;
  const size_t c = C;
  if (N <= FEW_ROWS) {
    few_rows_forward(task, sums, in, weight, bias, N, C, O);
  } else {
    product(task, {sums, static_cast<size_t>(O), bias, false}, {in, c, 1}, {weight, c, 1}, N, O, C);
  }
  const int64_t count = static_cast<int64_t>(N) * O;
  if (activation == GPT2_GELU) gelu_forward(task, out, pre, count);
  if (activation == GPT2_RELU_SQUARED) relu_squared_forward(task, out, out, count);
  if (residual) residual_forward(task, out, residual, out, count);
}

void matmul_backward_input(Task task, float *din, const float *dout, const float *weight, const float *pre,
                           const float *activated, int N, int C, int O, int activation) {
  const size_t c = C;
  product(task, {din, c, nullptr, false}, {dout, static_cast<size_t>(O), 1}, {weight, 1, c}, N, C, O);
  const int64_t count = static_cast<int64_t>(N) * C;
  if (activation == GPT2_GELU) gelu_backward(task, din, din, pre, count);
  if (activation != GPT2_RELU_SQUARED) return;
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) din[i] *= 2.0f * std::sqrt(activated[i]);
  });
}

void matmul_backward_weight(Task task, float *dweight, float *dbias, const float *dout, const float *in, int N, int C,
                            int O, bool accumulate) {
  const size_t c = C;
  product(task, {dweight, c, nullptr, accumulate}, {dout, 1, static_cast<size_t>(O)}, {in, 1, c}, O, C, N);
  if (dbias) column_sums(task, dbias, dout, N, O, accumulate);
}

// The scratch for every direction, with or without the weight gradient.
int64_t matmul_scratch(int threads, int N, int C, int O, bool) {
  return std::max({product_scratch(threads, N, O), product_scratch(threads, N, C), product_scratch(threads, O, C)});
}

}  // namespace gpt2::GPT2_PATH
