// A tile of an operand in shared memory that is filled while the block does something else: cp.async copies 16 bytes from memory to
// shared memory without a register, and the thread goes on. It copies bytes, so a tile has the elements and the order of memory.
#pragma once

#include <cuda_pipeline.h>

#include "operands.cuh"

// LINES lines of STEP k's: values[line][k] if K_INNER, else values[k][line].
template <bool K_INNER, int LINES, int STEP>
struct AsyncTile {
  static constexpr int width = 16 / sizeof(element);
  static constexpr int rows = K_INNER ? LINES : STEP, columns = K_INNER ? STEP : LINES;
  // Rows are an odd number of 16 bytes apart: 16 bytes of eight neighbouring rows lie in all 32 banks, not in the same four.
  alignas(16) element values[rows][columns + width];

  // Begins to copy the operand from line0 and k0 on, with zeros outside. THREADS threads call it; what they copied is there for all
  // after __pipeline_commit, __pipeline_wait_prior and a barrier.
  template <int THREADS>
  __device__ void fill(const Operand<K_INNER> &from, int line0, int k0) {
    if (from.has_vectors()) {
#pragma unroll
      for (int n = 0; n < rows * columns / width / THREADS; n++) {
        const int i = n * THREADS + threadIdx.x, row = i / (columns / width), column = i % (columns / width) * width;
        const int line = line0 + (K_INNER ? row : column), k = k0 + (K_INNER ? column : row);
        const bool is_inside = line < from.lines && k < from.K;
        // The last argument is the number of bytes that are set to zero instead of being read.
        __pipeline_memcpy_async(&values[row][column], is_inside ? from.place(line, k) : from.data, 16, is_inside ? 0 : 16);
      }
    } else {
      // An odd size: by element, and at once.
      for (int i = threadIdx.x; i < rows * columns; i += THREADS) {
        const int row = i / columns, column = i % columns;
        const int line = line0 + (K_INNER ? row : column), k = k0 + (K_INNER ? column : row);
        values[row][column] = static_cast<element>(from.at(line, k));
      }
    }
  }
};
