// The attention kernels for bf16 on tensor cores, sm_80 and later: tiles, fragments, head sizes (flash attention, Dao
// 2023).
//
// A block of 4 warps owns 64 * groups lines (queries, or keys in the kernel for dk and dv), each warp 16 * groups
// lines. The block loops over lines of the other side (keys, or queries for dk and dv), which cp.async loads into two
// buffers. The accumulators of a matmul, packed in pairs, are operand a of the next matmul, so scores, P and dS stay in
// registers. A warp has two groups where registers allow it (HS up to 64): each fragment read from shared memory then
// serves 32 lines. One group and twice the warps was 8% slower forward and 5% slower backward on an H100, at HS 64 and
// T 1024. Lines in shared memory are padded by 16 bytes: an odd number of 16-byte chunks, so ldmatrix has no bank
// conflicts at any head size that is a multiple of 16.
#pragma once

#include "../attention.cuh"
#include "../common/mma.cuh"

namespace gpt2::sm80 {

constexpr int threads = 128;

template <int HS>
struct Shape {
  static constexpr int groups = HS <= 64 ? 2 : 1;
  static constexpr int lines = 64 * groups;             // queries or keys that a block owns
  static constexpr int keys = 64;                       // keys that forward takes per iteration
  static constexpr int others = groups == 2 ? 32 : 64;  // lines of the other side that backward takes per iteration
  static constexpr int stride = HS + 8;                 // elements of a line in shared memory
  static constexpr int steps = HS / 16;                 // steps of k in matmuls over a head
  static constexpr int line_bytes = stride * 2;
};

// Copies LINES lines of HS elements to shared memory; lines from `end` on become zeros.
template <int HS, int LINES>
__device__ __forceinline__ void copy_lines(uint32_t shared, const bf16 *source, int64_t stride, int first, int end) {
  constexpr int chunks = HS / 8;
#pragma unroll
  for (int i = threadIdx.x; i < LINES * chunks; i += threads) {
    const int line = i / chunks, chunk = i % chunks;
    const bool valid = first + line < end;
    copy_async(shared + line * Shape<HS>::line_bytes + chunk * 16,
               source + (valid ? first + line : 0) * stride + chunk * 8, valid);
  }
}

// Loads an mma fragment of operand a: 16 lines (m) by 16 elements (k) from `column` on.
template <int HS>
__device__ __forceinline__ void load_a(uint32_t (&r)[4], uint32_t shared, int line, int column) {
  const int lane = threadIdx.x % 32;
  load_matrices(r, shared + (line + lane % 16) * Shape<HS>::line_bytes + (column + lane / 16 * 8) * 2);
}
// Loads two fragments of operand b: 16 lines (n) by 16 elements (k).
template <int HS>
__device__ __forceinline__ void load_b(uint32_t (&r)[4], uint32_t shared, int line, int column) {
  const int lane = threadIdx.x % 32;
  load_matrices(r,
                shared + (line + lane % 8 + lane / 16 * 8) * Shape<HS>::line_bytes + (column + lane / 8 % 2 * 8) * 2);
}
// Loads two fragments of operand b: 16 lines (k) by 16 elements (n).
template <int HS>
__device__ __forceinline__ void load_b_transposed(uint32_t (&r)[4], uint32_t shared, int line, int column) {
  const int lane = threadIdx.x % 32;
  load_matrices_transposed(r, shared + (line + lane % 16) * Shape<HS>::line_bytes + (column + lane / 16 * 8) * 2);
}

// result[g] += a[g] * b for each group g of 16 rows. The 16 columns of b are columns 16 j to 16 j + 15 of the result.
template <int GROUPS, int COUNT>
__device__ __forceinline__ void multiply_groups(float (&result)[GROUPS][COUNT][4], const uint32_t (&a)[GROUPS][4],
                                                const uint32_t (&b)[4], int j) {
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    multiply_bf16(result[g][j * 2], a[g], b[0], b[1]);
    multiply_bf16(result[g][j * 2 + 1], a[g], b[2], b[3]);
  }
}
// result += a * b, where b is 16 lines (k) of HS elements (n) in shared memory, from `line` on.
template <int HS, int GROUPS>
__device__ __forceinline__ void multiply_lines(float (&result)[GROUPS][HS / 8][4], const uint32_t (&a)[GROUPS][4],
                                               uint32_t shared, int line) {
#pragma unroll
  for (int j = 0; j < HS / 16; j++) {
    uint32_t fragment[4];
    load_b_transposed<HS>(fragment, shared, line, j * 16);
    multiply_groups(result, a, fragment, j);
  }
}

// Packs two adjacent fragments of a result, 16 columns, as operand a of a matmul that sums over these columns.
__device__ __forceinline__ void as_operand(uint32_t (&a)[4], const float (&even)[4], const float (&odd)[4]) {
  a[0] = pack_bf16(even[0], even[1]);
  a[1] = pack_bf16(even[2], even[3]);
  a[2] = pack_bf16(odd[0], odd[1]);
  a[3] = pack_bf16(odd[2], odd[3]);
}

// The ranges of keys of the queries that a lane's fragments hold: queries `row`, `row` + 8, ...
template <int HS>
__device__ __forceinline__ void ranges_of_queries(Range (&range)[Shape<HS>::groups][2], const AttentionSizes &sizes,
                                                  int b, int row) {
#pragma unroll
  for (int i = 0; i < Shape<HS>::groups * 2; i++) range[i / 2][i % 2] = sizes.mask.keys_of(b, row + i * 8, sizes.T);
}

// Stores a warp's 16 lines of results by way of the warp's shared memory, so that each line is stored contiguously.
template <int HS>
__device__ __forceinline__ void store_lines(bf16 *destination, int64_t stride, int first, int end, uint32_t shared,
                                            bf16 *memory, const float (&result)[HS / 8][4]) {
  using S = Shape<HS>;
  const int lane = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < HS / 8; j++) {
    auto *at = memory + lane / 4 * S::stride + j * 8 + lane % 4 * 2;
    *reinterpret_cast<uint32_t *>(at) = pack_bf16(result[j][0], result[j][1]);
    *reinterpret_cast<uint32_t *>(at + 8 * S::stride) = pack_bf16(result[j][2], result[j][3]);
  }
  __syncwarp();
  constexpr int chunks = HS / 8;
#pragma unroll
  for (int i = lane; i < 16 * chunks; i += 32) {
    const int line = i / chunks, chunk = i % chunks;
    if (first + line < end) {
      *reinterpret_cast<uint4 *>(destination + (first + line) * stride + chunk * 8) =
          *reinterpret_cast<const uint4 *>(memory + line * S::stride + chunk * 8);
    }
  }
}

template <int HS>
constexpr int forward_shared_bytes = (Shape<HS>::lines + 4 * Shape<HS>::keys) * Shape<HS>::line_bytes;
template <int HS>
constexpr int backward_shared_bytes = (2 * Shape<HS>::lines + 4 * Shape<HS>::others) * Shape<HS>::line_bytes;

// Calls `body` with the head size as a constant; false if no kernel is compiled for it.
template <class Body>
bool with_head_size(int HS, Body body) {
  switch (HS) {
    case 32: return body(std::integral_constant<int, 32>{}), true;
    case 64: return body(std::integral_constant<int, 64>{}), true;
    case 80: return body(std::integral_constant<int, 80>{}), true;
    case 96: return body(std::integral_constant<int, 96>{}), true;
    case 128: return body(std::integral_constant<int, 128>{}), true;
  }
  return false;
}

}  // namespace gpt2::sm80
