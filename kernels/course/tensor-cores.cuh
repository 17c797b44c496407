// Tensor cores of sm_80 and later: a warp multiplies small matrices of bf16, of which each lane holds a part, a fragment, in registers.
//
// Here a fragment is 16 lines of 16 k's, both for a (whose lines are the result's rows) and for b (whose lines are its columns; one
// instruction takes 8 of them, so a fragment of b is two halves). Lane l holds of it, with g = l / 4 and p = l % 4:
//
//            k = 2p, 2p + 1    k = 8 + 2p, 9 + 2p
//   line g       values[0]         values[2]       first half of b: values[0] and values[2]
//   line g + 8   values[1]         values[3]       second half:     values[1] and values[3]
//
// A register has two neighbouring k's, the first in its lower half. Of a result [16,8] of fp32, lane l holds row g, columns 2p and
// 2p + 1, and the same columns of row g + 8. (PTX ISA, "Matrix fragments for mma.m16n8k16".)
#pragma once

#include <cuda_bf16.h>

struct Fragment {
  unsigned values[4];
};

// Reads four matrices of 8 x 8. Lane 8i + j gives the address of row j of matrix i, 16 bytes in shared memory. values[i] of lane l then
// is row g, columns 2p and 2p + 1, of matrix i, or with TRANSPOSED row g of its transpose: column g, rows 2p and 2p + 1.
template <bool TRANSPOSED>
__device__ inline Fragment load_matrices(const __nv_bfloat16 *row) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  Fragment to;
  if constexpr (TRANSPOSED) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.values[0]), "=r"(to.values[1]), "=r"(to.values[2]), "=r"(to.values[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.values[0]), "=r"(to.values[1]), "=r"(to.values[2]), "=r"(to.values[3])
                 : "r"(address)
                 : "memory");
  }
  return to;
}

// sums [16,8] += a times the first (0) or second (1) half of b.
__device__ inline void multiply(float (&sums)[4], const Fragment &a, const Fragment &b, int half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a.values[0]), "r"(a.values[1]), "r"(a.values[2]), "r"(a.values[3]), "r"(b.values[half]), "r"(b.values[half + 2]));
}

// The fragment whose first line and k are at `first`, in shared memory with `stride` elements from a row to the next. A row is a line
// if LINES_ARE_ROWS, else a k. Matrices 0 and 1 have the first 8 k's, 0 and 2 the first 8 lines, so that values[] is as above.
template <bool LINES_ARE_ROWS>
__device__ inline Fragment load_fragment(const __nv_bfloat16 *first, int stride) {
  const int lane = threadIdx.x % 32, matrix = lane / 8;
  const int line = matrix % 2 * 8, k = matrix / 2 * 8, row = lane % 8;
  return load_matrices<!LINES_ARE_ROWS>(LINES_ARE_ROWS ? first + (line + row) * stride + k : first + (k + row) * stride + line);
}

// Two neighbours of a result, as a register of a fragment.
__device__ inline unsigned packed(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const unsigned *>(&pair);
}

// Two neighbouring results [16,8] as a fragment: their rows become lines, their columns k's. It is in the right lanes already.
__device__ inline Fragment as_fragment(const float (&left)[4], const float (&right)[4]) {
  return {packed(left[0], left[1]), packed(left[2], left[3]), packed(right[0], right[1]), packed(right[2], right[3])};
}
