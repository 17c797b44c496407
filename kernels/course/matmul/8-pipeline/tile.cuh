// A tile of an operand in shared memory without padding, and a thread's copies of one tile after the other.
#pragma once

#include <cuda_pipeline.h>

#include "../../tensor-cores.cuh"
#include "../operands.cuh"

constexpr int tile = 128, step_k = 64, threads = 128;
constexpr int width = 8;  // elements of 16 bytes
static_assert(sizeof(element) == 2, "tensor cores multiply bf16 here");

// 128 lines of 64 k's: values[line][k] if K_INNER, else values[k][line]. In row r, the 16 bytes with index p are at p ^ r % 8: equal places
// of eight rows then lie in all 32 banks, as with padding, but three stages of two blocks fit the memory of an SM.
template <bool K_INNER>
struct Tile {
  static constexpr int rows = K_INNER ? tile : step_k, columns = K_INNER ? step_k : tile;
  element values[rows][columns];

  __device__ element *place(int row, int column) { return &values[row][column ^ row % 8u * width]; }

  // 16 lines of 16 k's, as load_fragment of tensor-cores.cuh.
  __device__ Fragment fragment(int line, int k) {
    const int row = threadIdx.x % 8, matrix = threadIdx.x % 32 / 8;
    line += matrix % 2 * 8, k += matrix / 2 * 8;
    return load_matrices<!K_INNER>(K_INNER ? place(line + row, k) : place(k + row, line));
  }

  // Begins to copy the operand from line0 and k0 on, with zeros outside. With an odd size it is copied by element, and at once.
  __device__ void fill(const Operand<K_INNER> &from, int line0, int k0) {
    const int of_copy = from.has_vectors() ? width : 1;
#pragma unroll 1
    for (int i = threadIdx.x * of_copy; i < rows * columns; i += threads * of_copy) {
      const int row = i / columns, column = i % columns;
      const int line = line0 + (K_INNER ? row : column), k = k0 + (K_INNER ? column : row);
      const bool is_inside = line < from.lines && k < from.K;
      if (of_copy == 1) {
        *place(row, column) = is_inside ? *from.place(line, k) : element(0.0f);
      } else {
        __pipeline_memcpy_async(place(row, column), is_inside ? from.place(line, k) : from.data, 16, is_inside ? 0 : 16);
      }
    }
  }
};

// A thread's copies of the tiles of some lines, one after the other in k. It copies the same place of every 16th or 8th row, so that an
// address is the last one plus a constant, and a tile that lies inside needs no checks. Rung 7 computes and checks each address.
template <bool K_INNER>
struct Copier {
  static constexpr int packs = Tile<K_INNER>::columns / width, rows_apart = threads / packs;
  const Operand<K_INNER> &operand;
  const int line0;
  const bool has_all_lines;
  const element *from;  // of the thread's first copy of the next tile

  __device__ Copier(const Operand<K_INNER> &operand, int line0, int k0)
      : operand(operand), line0(line0), has_all_lines(operand.has_vectors() && line0 + tile <= operand.lines) {
    const int row = threadIdx.x / packs, column = threadIdx.x % packs * width;
    from = operand.place(line0 + (K_INNER ? row : column), k0 + (K_INNER ? column : row));
  }

  // Begins to copy the next tile, which is at k0.
  __device__ void copy(Tile<K_INNER> &to, int k0) {
    const size_t row_size = K_INNER ? operand.K : operand.lines;
    if (has_all_lines && k0 + step_k <= operand.K) {
      const element *next = from;
#pragma unroll
      for (int row = 0; row < Tile<K_INNER>::rows; row += rows_apart, next += rows_apart * row_size) {
        __pipeline_memcpy_async(to.place(row + threadIdx.x / packs, threadIdx.x % packs * width), next, 16);
      }
    } else {
      to.fill(operand, line0, k0);
    }
    from += K_INNER ? step_k : step_k * row_size;
  }
};
