// Products of matrices, out[M,N] (=|+=) A[M,K] * B[K,N], of which a thread computes a block alone. An engine copies blocks of
// A and B into memory of the thread, in the order in which its micro-kernel reads them, and multiplies them there.
// Engines differ in the precision of operands; each has the same bits on every path that has it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gpt2 {

// A matrix whose element (row, column) is at data[row * row_stride + column * column_stride]; one stride is 1.
struct View {
  const float *data;
  size_t row_stride;
  size_t column_stride;

  const float *at(int row, int column) const { return data + row * row_stride + column * column_stride; }
  View transposed() const { return {data, column_stride, row_stride}; }
};

// The contiguous lines of a block of a matrix.
struct Lines {
  const float *first;
  size_t stride;
  int count, length;

  Lines(View of, int row, int rows, int column, int columns)
      : first(of.at(row, column)),
        stride(of.column_stride == 1 ? of.row_stride : of.column_stride),
        count(of.column_stride == 1 ? rows : columns),
        length(of.column_stride == 1 ? columns : rows) {}
};

// A copied block of A or B, `depth` long in K.
struct Block {
  const void *data;
  int depth;
  bool transposed;  // of A in fp32: contiguous in M
};

struct Output {
  float *data;
  size_t stride;
  bool add;  // to what `data` holds, instead of replacing it

  Output at(int m, int n) const { return {data + m * stride + n, stride, add}; }
};

// Floats between rows of a block of A in fp32. A multiple of 4 KiB would put all rows of a tile into one set of L1.
constexpr int A_STRIDE = 400;

// A thread's memory for a block of A, for one of B, and for both, in floats; the largest of any engine.
constexpr int64_t A_FLOATS = A_STRIDE * A_STRIDE;
constexpr int64_t B_FLOATS = 512 * 512 / 2;
constexpr int64_t PRODUCT_FLOATS = A_FLOATS + B_FLOATS;

struct Engine {
  int tile_m, tile_n;              // of the output, in registers
  int block_m, block_n, block_k;   // the largest block that is copied
  float cycles;                    // that a multiplication takes, about
  // Copies rows [first, first + count) of A's columns [k, k + depth), or columns of B, which are rows of the view `b`.
  Block (*copy_a)(float *to, View a, int first, int count, int k, int depth);
  Block (*copy_b)(float *to, View b, int first, int count, int k, int depth);
  // out[rows, columns] (=|+=) the first `depth` columns of A times as many rows of B.
  void (*multiply)(Output out, Block a, Block b, int depth, int rows, int columns);
};

}  // namespace gpt2
