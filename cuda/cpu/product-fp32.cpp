// Products in fp32. A micro-kernel keeps a tile of sums in registers; it broadcasts elements of A, which is copied as it is,
// and reads vectors of B, which is packed in panels of TILE_N columns, [N / TILE_N][K][TILE_N]. So of all operands only a B
// that is contiguous along K is transposed. After Goto and van de Geijn (2008).
#include <cstring>
#include <utility>

#include "kernels.h"
#include "vectors.h"

namespace gpt2::GPT2_PATH {

namespace {

// The tile: 6 x 4 vectors (of 32 registers) or 6 x 2 (of 16). Their columns divide the widths of models, small ones too.
constexpr int TILE_M = 6;
constexpr int VECTORS = REGISTERS == 32 ? 4 : 2;
constexpr int TILE_N = VECTORS * WIDTH;

// Blocks of A of 396 x 384 (600 KiB) and of B of 384 x 192 (288 KiB) stay in an L2 of 1 MiB; six rows of A (9 KiB) stay in
// L1 while the panels of B pass by. 14 x 2 and 8 x 3 vectors were 1 to 4% slower (Zen 4), blocks of 768 columns 3%.
constexpr int BLOCK_K = 384;
constexpr int BLOCK_M = 396;
constexpr int BLOCK_N = 192;
static_assert(BLOCK_K <= A_STRIDE && BLOCK_M <= A_STRIDE && BLOCK_K * BLOCK_N <= B_FLOATS);

Block copy_a(float *to, View a, int first, int count, int k, int depth) {
  const Lines lines(a, first, count, k, depth);
  // What has the order already, attention's scores, stays in its place.
  if (lines.stride == A_STRIDE) return {lines.first, depth, a.column_stride != 1};
  for (int line = 0; line < lines.count; line++) {
    std::memcpy(to + static_cast<size_t>(line) * A_STRIDE, lines.first + line * lines.stride,
                lines.length * sizeof(float));
  }
  return {to, depth, a.column_stride != 1};
}

Block copy_b(float *to, View b, int first, int count, int k, int depth) {
  const Block block{to, depth, false};
  for (int n = 0; n < count; n += TILE_N, to += depth * TILE_N) {
    const int columns = std::min(TILE_N, count - n);
    const float *from = b.at(first + n, k);
    int done = 0;
    if (columns == TILE_N && b.row_stride == 1) {
      for (; done < depth; done++) {
        std::memcpy(to + done * TILE_N, from + done * b.column_stride, TILE_N * sizeof(float));
      }
    } else if (columns == TILE_N) {
      for (; done + WIDTH <= depth; done += WIDTH) {
        for (int part = 0; part < TILE_N; part += WIDTH) {
          transpose_square(to + done * TILE_N + part, TILE_N, from + part * b.row_stride + done, b.row_stride);
        }
      }
    }
    for (; done < depth; done++) {
      for (int column = 0; column < TILE_N; column++) {
        to[done * TILE_N + column] = column < columns ? from[column * b.row_stride + done * b.column_stride] : 0;
      }
    }
  }
  return block;
}

// out[rows, TILE_N] (=|+=) a block of A times a panel of B.
template <bool transposed, int rows>
void micro_kernel(Output out, const float *a, const float *b, int depth) {
  // Nothing may take the address of the sums: then they would not stay in registers.
  Vector sums[rows][VECTORS] = {};
  for (int k = 0; k < depth; k++) {
    Vector line[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) line[v] = *reinterpret_cast<const Vector *>(b + k * TILE_N + v * WIDTH);
#pragma GCC unroll 6
    for (int m = 0; m < rows; m++) {
      const Vector value = a[transposed ? k * A_STRIDE + m : m * A_STRIDE + k] - Vector{};
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) sums[m][v] += value * line[v];
    }
  }
#pragma GCC unroll 6
  for (int m = 0; m < rows; m++) {
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
      Vector *to = reinterpret_cast<Vector *>(out.data + m * out.stride + v * WIDTH);
      *to = out.add ? *to + sums[m][v] : sums[m][v];
    }
  }
}

// micro_kernel() for 1 to TILE_M rows.
template <bool transposed, int... index>
void tile(int rows, Output out, const float *a, const float *b, int depth, std::integer_sequence<int, index...>) {
  using Kernel = void (*)(Output, const float *, const float *, int);
  static constexpr Kernel kernels[] = {micro_kernel<transposed, index + 1>...};
  kernels[rows - 1](out, a, b, depth);
}

void multiply(Output out, Block a, Block b, int depth, int rows, int columns) {
  const auto compute = [&](int count, Output to, int m, const float *panel) {
    const float *block = static_cast<const float *>(a.data);
    constexpr auto counts = std::make_integer_sequence<int, TILE_M>{};
    if (a.transposed) {
      tile<true>(count, to, block + m, panel, depth, counts);
    } else {
      tile<false>(count, to, block + m * A_STRIDE, panel, depth, counts);
    }
  };
  for (int m = 0; m < rows; m += TILE_M) {
    const int count = std::min(TILE_M, rows - m);
    for (int n = 0; n < columns; n += TILE_N) {
      const int width = std::min(TILE_N, columns - n);
      const float *panel = static_cast<const float *>(b.data) + static_cast<size_t>(n) * b.depth;
      const Output to = out.at(m, n);
      for (int i = 0; i < count; i++) {
        for (int j = 0; j < width; j += 16) __builtin_prefetch(to.data + i * to.stride + j, 1);
      }
      if (width == TILE_N) {
        compute(count, to, m, panel);
        continue;
      }
      float sums[TILE_M * TILE_N];
      compute(count, {sums, TILE_N, false}, m, panel);
      for (int i = 0; i < count; i++) {
        float *line = to.data + i * to.stride;
        for (int j = 0; j < width; j++) line[j] = (to.add ? line[j] : 0) + sums[i * TILE_N + j];
      }
    }
  }
}

}  // namespace

const Engine fp32_engine = {TILE_M, TILE_N, BLOCK_M, BLOCK_N, BLOCK_K, 0.5f / WIDTH, copy_a, copy_b, multiply};

}  // namespace gpt2::GPT2_PATH
