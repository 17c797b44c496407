// Matmuls in fp32. A micro-kernel keeps a tile of TILE_M x TILE_N sums in registers; it broadcasts elements of A and
// reads vectors of B. A is copied in panels [M / PANEL_M][K][PANEL_M], B in panels [N / TILE_N][K][TILE_N], so that the
// micro-kernel reads both in order; the last panel is padded with zeros. After Goto and van de Geijn (2008).
#include <array>
#include <cstring>
#include <utility>

#include "kernels.h"
#include "vectors.h"

namespace gpt2::GPT2_PATH {

namespace {

// With 32 vector registers, 8 x 3 hold sums; with 16, 4 x 3. Four more hold three vectors of B and an element of A.
constexpr int TILE_M = REGISTERS == 32 ? 8 : 4;
constexpr int VECTORS = 3;
constexpr int TILE_N = VECTORS * WIDTH;
constexpr int PANEL_M = std::max(TILE_M, WIDTH);

// A block of A, 384 in K x 512 rows (768 KiB), stays in L2. All of its tiles read a panel of B, 384 x 48 (72 KiB), that
// was copied just before: 192 columns of B were 8% slower on a Xeon (benchmarks/cpu.md).
constexpr int BLOCK_K = 384;
static_assert(BLOCK_K * TILE_N <= B_FLOATS);

// Copies rows [first, first + count) of the view's columns [k, k + depth) in panels [count / width][length][width]. In
// the last panel only vectors that hold a row are written.
template <int width>
Block copy(float *to, View view, int first, int count, int k, int depth, int length) {
  const Block block{to, length};
  for (int row = 0; row < count; row += width, to += length * width) {
    const int rows = std::min(width, count - row), whole = rows / WIDTH * WIDTH;
    const int padded = (rows + WIDTH - 1) / WIDTH * WIDTH;
    const float *from = static_cast<const float *>(view.at(first + row, k));
    int done = 0;
    if (view.row_stride == 1) {
      for (int d = 0; d < depth; d++) {
        for (int i = 0; i < whole; i += WIDTH) {
          std::memcpy(to + d * width + i, from + d * view.column_stride + i, WIDTH * sizeof(float));
        }
      }
      done = depth;
    }
    for (; done + WIDTH <= depth; done += WIDTH) {
      for (int part = 0; part < whole; part += WIDTH) {
        // Prefetches, because the CPU by itself does not prefetch rows that are far apart.
        for (int i = 0; i < WIDTH; i++) __builtin_prefetch(from + (part + i) * view.row_stride + done + 64);
        transpose_square(to + done * width + part, width, from + part * view.row_stride + done, view.row_stride);
      }
    }
    for (int i = 0; i < padded; i++) {
      for (int d = i < whole ? done : 0; d < depth; d++) {
        to[d * width + i] = i < rows ? from[i * view.row_stride + d * view.column_stride] : 0;
      }
    }
  }
  return block;
}

// out[rows, vectors * WIDTH] (=|+=) a tile's rows of A times a panel of B. K is divided into `rows` ranges: before each
// range a row of the output and `lines` cache lines of `ahead` are prefetched. Prefetching all at once delays loads.
template <int rows, int vectors>
void micro_kernel(Output out, const float *a, const float *b, int depth, Ahead &ahead, int lines) {
  // Nothing may take the address of the sums, because they would then not stay in registers.
  Vector sums[rows][vectors] = {};
  for (int row = 0, k = 0; row < rows; row++) {
    for (int n = 0; n < vectors * WIDTH; n += 16) __builtin_prefetch(out.data + row * out.stride + n, 1);
    ahead.fetch(lines);
    for (const int end = depth * (row + 1) / rows; k < end; k++) {
      __builtin_prefetch(a + (k + 16) * PANEL_M);
      Vector line[vectors];
#pragma GCC unroll 3
      for (int v = 0; v < vectors; v++) line[v] = *reinterpret_cast<const Vector *>(b + k * TILE_N + v * WIDTH);
#pragma GCC unroll 8
      for (int m = 0; m < rows; m++) {
        const Vector value = a[k * PANEL_M + m] - Vector{};
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) sums[m][v] += value * line[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < rows; m++) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) {
      Vector *to = reinterpret_cast<Vector *>(out.data + m * out.stride + v * WIDTH);
      *to = out.add ? *to + sums[m][v] : sums[m][v];
    }
  }
}

using MicroKernel = void (*)(Output, const float *, const float *, int, Ahead &, int);

// The micro-kernels for 1 to TILE_M rows, each for 1 to VECTORS vectors, in this order.
template <int... index>
constexpr std::array<MicroKernel, TILE_M * VECTORS> micro_kernels(std::integer_sequence<int, index...>) {
  return {micro_kernel<index / VECTORS + 1, index % VECTORS + 1>...};
}

void multiply(Output out, Block a, Block b, int depth, int rows, int columns, Ahead ahead) {
  static constexpr auto kernels = micro_kernels(std::make_integer_sequence<int, TILE_M * VECTORS>{});
  // Cache lines of `ahead` that each row of a tile prefetches.
  const int lines = (ahead.lines() + rows - 1) / rows;
  for (int n = 0; n < columns; n += TILE_N) {
    const int width = std::min(TILE_N, columns - n);
    const float *panel = b.data + static_cast<size_t>(n) * b.depth;
    for (int m = 0; m < rows; m += TILE_M) {
      const float *panel_a = a.data + static_cast<size_t>(m / PANEL_M * PANEL_M) * a.depth + m % PANEL_M;
      const int count = std::min(TILE_M, rows - m);
      const MicroKernel kernel = kernels[(count - 1) * VECTORS + (width - 1) / WIDTH];
      const Output to = out.at(m, n);
      if (width % WIDTH == 0) {
        kernel(to, panel_a, panel, depth, ahead, lines);
        continue;
      }
      float sums[TILE_M * TILE_N];
      kernel({sums, TILE_N, false}, panel_a, panel, depth, ahead, lines);
      for (int i = 0; i < count; i++) {
        float *line = to.data + i * to.stride;
        for (int j = 0; j < width; j++) line[j] = (to.add ? line[j] : 0) + sums[i * TILE_N + j];
      }
    }
  }
  if (out.finish) (*out.finish)(out.row, out.column, out.data, out.stride, rows, columns);
}

}  // namespace

const Engine fp32_engine = {TILE_M,       TILE_N, A_ELEMENTS,    BLOCK_K,      false,
                            0.5f / WIDTH, 8,      copy<PANEL_M>, copy<TILE_N>, multiply};

}  // namespace gpt2::GPT2_PATH
