// Products of matrices, out[M,N] (=|+=) A[M,K] * B[K,N], which threads compute in blocks. An engine copies blocks of A
// and B in the order in which its micro-kernel reads them, and multiplies the copies. Engines differ in the precision
// of operands. The bf16 engine has the same bits on every code path.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gpt2 {

// A matrix whose element (row, column) is at data[row * row_stride + column * column_stride]; one stride is 1. Elements
// are floats, or bf16 if `is_rounded`; only the bf16 engine can copy such a view, and only as A.
struct View {
  const void *data;
  size_t row_stride;
  size_t column_stride;
  bool is_rounded = false;

  size_t bytes() const { return is_rounded ? 2 : 4; }  // of an element
  const void *at(int row, int column) const {
    return static_cast<const char *>(data) + (row * row_stride + column * column_stride) * bytes();
  }
  View transposed() const { return {data, column_stride, row_stride, is_rounded}; }
};

// A copied block of A or B, `depth` long in K.
struct Block {
  const float *data;
  int depth;
};

// Rows of memory that a thread copies next. Micro-kernels prefetch them into L2, so that the copy need not wait.
struct Ahead {
  const char *data = nullptr;
  size_t stride = 0;
  int width = 0, rows = 0;  // bytes of a row, and rows still to fetch
  int at = 0;

  int lines() const { return rows * ((width + 63) / 64); }
  void fetch(int lines) {
    for (; lines > 0 && rows > 0; lines--) {
      __builtin_prefetch(data + at, 0, 2);
      if ((at += 64) < width) continue;
      at = 0;
      data += stride;
      rows--;
    }
  }
};

// Computes the output from finished sums: calls line(row, column, sums, columns) once for each line of each block of
// the output. line() may change the sums, and writes the output. The sums may be in the output's memory.
class Finish {
 public:
  template <class Line>
  explicit Finish(const Line &line) : line_(&line), call_(&each<Line>) {}
  void operator()(int row, int column, float *sums, size_t stride, int rows, int columns) const {
    call_(line_, row, column, sums, stride, rows, columns);
  }

 private:
  template <class Line>
  static void each(const void *line, int row, int column, float *sums, size_t stride, int rows, int columns) {
    // Engines usually compute 32 columns at once. With this constant the compiler makes loops of whole vectors.
    constexpr int usual = 32;
    const Line &of = *static_cast<const Line *>(line);
    for (int i = 0; i < rows && columns == usual; i++) of(row + i, column, sums + i * stride, usual);
    for (int i = 0; i < rows && columns != usual; i++) of(row + i, column, sums + i * stride, columns);
  }

  const void *line_;
  void (*call_)(const void *, int, int, float *, size_t, int, int);
};

struct Output {
  float *data;
  size_t stride;
  bool add;                        // add to `data` instead of replacing it
  bool stream = false;             // bypass the caches, because nothing reads the output soon; an engine may ignore it
  const Finish *finish = nullptr;  // computes the output from the sums; NULL: the sums are the output
  int row = 0, column = 0;         // position of `data` in the output

  Output at(int m, int n) const { return {data + m * stride + n, stride, add, stream, finish, row + m, column + n}; }
};

// The most floats that a copied block takes, padding included.
constexpr int64_t copied_floats(int64_t elements) { return elements * 3 / 2; }

// The most memory that a thread needs in any engine for a block of A, for a block of B, and for both, in floats.
constexpr int A_ELEMENTS = 384 * 512;
constexpr int64_t A_FLOATS = copied_floats(A_ELEMENTS);
constexpr int64_t B_FLOATS = 384 * 64;
constexpr int64_t PRODUCT_FLOATS = A_FLOATS + B_FLOATS;

struct Engine {
  int tile_m, tile_n;    // rows and columns of the output in registers
  int a_elements;        // elements of the largest block of A
  int block_k;           // the largest length of a block in K; a block of B has tile_n columns
  bool is_bf16;          // copies are bf16, and threads may share copies of B
  float cycles;          // about how many cycles a multiplication takes
  // A forward matmul of at most this many rows reads the weight in place: copying the weight would take longer than the
  // matmul. 0 in bf16, because the elements of a weight that is read in place are not rounded.
  int few_rows;
  // Copy rows [first, first + count) and columns [k, k + depth) of a view into a block that is `length` long in K: rows of
  // A, and columns of B, which are rows of the view `b`.
  Block (*copy_rows)(float *to, View a, int first, int count, int k, int depth, int length);
  Block (*copy_columns)(float *to, View b, int first, int count, int k, int depth, int length);
  // out[rows, columns] (=|+=) the first `depth` columns of A times as many rows of B.
  void (*multiply)(Output out, Block a, Block b, int depth, int rows, int columns, Ahead ahead);

  Block copy_a(float *to, View a, int first, int count, int k, int depth) const {
    return copy_rows(to, a, first, count, k, depth, depth);
  }
  Block copy_b(float *to, View b, int first, int count, int k, int depth) const {
    return copy_columns(to, b, first, count, k, depth, depth);
  }
};

}  // namespace gpt2
