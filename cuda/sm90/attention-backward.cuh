// Shared code of attention backward on Hopper; attention-backward.cu explains the two kernels. The kernel that owns
// keys computes transposed scores: lines are keys, columns are queries. Shared memory holds the queries' lse and D.
#pragma once

#include "attention.cuh"

namespace gpt2::sm90 {

constexpr int consumers = 2;  // warpgroups that multiply
constexpr int tile_lines = consumers * 64;
static_assert(tile_lines == block_lines,
              "a launch counts tiles of block_lines; a step of keys takes a tile of queries");
constexpr int threads = (1 + consumers) * 128;

// The address of the statistics of LINES queries from `query` on: lse in base 2, then D. The kernel that owns queries
// stores the statistics of all queries in scratch, and the kernel that owns keys reads them. Past the end of a sequence
// lse is infinity, which makes probabilities 0.
template <int LINES>
__device__ __forceinline__ float *statistics_of(float *all, const AttentionArguments &arguments, const HeadTile &unit,
                                                int query) {
  const int64_t blocks = arguments.tiles * (tile_lines / LINES);
  return all + (unit.row * blocks + query / LINES) * (2 * LINES);
}

// The dot product of two 16-byte chunks of bf16.
__device__ __forceinline__ float dot_chunks(const uint4 &a, const uint4 &b) {
  const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 p = unpack_bf16(x[i]), q = unpack_bf16(y[i]);
    sum = fmaf(p.x, q.x, fmaf(p.y, q.y, sum));
  }
  return sum;
}

// Replaces transposed scores by probabilities: exp(score * scale - lse). `lse`, in base 2, points at the value of the
// lane's first query. With MASKS, hides(j, i) tells whether the mask hides score[j * 4 + i].
template <bool MASKS, int COUNT, class Hides>
__device__ __forceinline__ void probabilities_of_keys(float (&score)[COUNT], const float *lse, float scale_log2,
                                                      Hides hides) {
#pragma unroll
  for (int j = 0; j < COUNT / 4; j++) {
    const float2 lse_log2 = *reinterpret_cast<const float2 *>(lse + j * 8);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float &p = score[j * 4 + i];
      p = exp2_approximate(fmaf(p, scale_log2, -(i % 2 ? lse_log2.y : lse_log2.x)));
      if constexpr (MASKS) {
        if (hides(j, i)) p = 0;
      }
    }
  }
}
// Turns gradients of the probabilities `share` into gradients of scores. `D` points at the lane's first query's D.
template <int COUNT>
__device__ __forceinline__ void gradients_of_keys(float (&dscore)[COUNT], const float (&share)[COUNT], const float *D) {
#pragma unroll
  for (int j = 0; j < COUNT / 4; j++) {
    const float2 other_D = *reinterpret_cast<const float2 *>(D + j * 8);
#pragma unroll
    for (int i = 0; i < 4; i++)
      dscore[j * 4 + i] = share[j * 4 + i] * (dscore[j * 4 + i] - (i % 2 ? other_D.y : other_D.x));
  }
}

// Head size 64: sizes and shared memory of both kernels.
namespace backward {

constexpr int stage_bytes = 2 * block_bytes;  // blocks of k and v, or of q and dout
constexpr int staging_bytes = consumers * 64 * line_bytes;
constexpr int statistics_lines = tile_lines;
constexpr int statistics_count = 2 * statistics_lines;
constexpr int statistics_bytes = statistics_count * static_cast<int>(sizeof(float));

// The layout of shared memory: a ring of STAGES blocks of k and v (or q and dout), two buffers for the block's tile of
// each of TENSORS tensors, staging for results, and the queries' statistics (lse, D) for each stage or tile.
template <int STAGES, int TENSORS>
struct Layout {
  static constexpr int tile_bytes = TENSORS * tile_lines * line_bytes;
  static constexpr int shared_bytes = STAGES * (stage_bytes + statistics_bytes) + 2 * tile_bytes + staging_bytes + 2048;

  uint32_t ring, tile, staging, full, empty, tile_full, tile_empty, statistics_full;
  float *statistics;
  Announcements tiles;  // only with a mask

  __device__ explicit Layout(unsigned char *memory) {
    const uint32_t begin = shared_address(memory);
    ring = (begin + 1023) & ~1023u;
    tile = ring + STAGES * stage_bytes;
    staging = tile + 2 * tile_bytes;
    const uint32_t statistics_begin = staging + staging_bytes;
    statistics = reinterpret_cast<float *>(memory + (statistics_begin - begin));
    full = statistics_begin + STAGES * statistics_bytes;
    empty = full + STAGES * 8;
    tile_full = empty + STAGES * 8;
    tile_empty = tile_full + 2 * 8;
    statistics_full = tile_empty + 2 * 8;
    tiles = Announcements(memory, statistics_full + 2 * 8);
  }
};
using QueriesLayout = Layout<3, 3>;  // tile: q, dout, out
using KeysLayout = Layout<4, 2>;     // tile: k, v

}  // namespace backward

// Head size 128: a line has twice the channels, so the two kernels divide registers and shared memory differently.
// Rings are shorter, and a warpgroup's results are staged in the memory of its operands.
namespace backward_128 {

// A strip: the 64 lines of an operand that a warpgroup owns, loaded as one TMA box. Its memory later stages results.
constexpr int strip_lines = 64;
constexpr int strip_bytes = 2 * strip_lines * line_bytes;
constexpr int staging_bytes = strip_bytes / 4;
constexpr int strip_pair_bytes = 2 * strip_bytes;  // q, dout; or k, v

constexpr int statistics_lines = 64;  // the kernel that owns keys takes 64 queries a step
constexpr int statistics_count = 2 * statistics_lines;
constexpr int statistics_bytes = statistics_count * static_cast<int>(sizeof(float));

}  // namespace backward_128

}  // namespace gpt2::sm90
