// Attention backward on Hopper: sizes and shared memory of both kernels (attention-queries.cuh, attention-keys.cuh).
// attention-backward.cu explains the kernels.
#pragma once

#include "attention-gradients.cuh"

namespace gpt2::sm90::backward {

constexpr int consumers = 2;
constexpr int tile_lines = consumers * 64;
constexpr int threads = (1 + consumers) * 128;
constexpr int stage_bytes = 2 * block_bytes;  // k, v; or q, dout
constexpr int staging_bytes = consumers * 64 * line_bytes;

// The statistics of 128 queries: lse in units of log2, then D. The kernel for queries stores [B,NH,tiles] of them in
// scratch, and the kernel for keys reads them. Past the end of a sequence lse is infinity, which makes probabilities 0.
constexpr int statistics_count = 2 * tile_lines;
constexpr int statistics_bytes = statistics_count * static_cast<int>(sizeof(float));
static_assert(tile_lines == block_lines, "a step of keys takes a tile of queries");

__device__ __forceinline__ float *statistics_of(float *all, const AttentionArguments &arguments, const HeadTile &unit,
                                                int query) {
  return all + (static_cast<int64_t>(unit.row) * arguments.tiles + query / tile_lines) * statistics_count;
}

// The layout of shared memory: a ring of STAGES for the other side, two buffers for a tile of the TENSORS that the
// block owns, staging for results, and statistics for each stage or each tile.
template <int STAGES, int TENSORS>
struct Layout {
  static constexpr int tile_bytes = TENSORS * tile_lines * line_bytes;
  static constexpr int shared_bytes = STAGES * (stage_bytes + statistics_bytes) + 2 * tile_bytes + staging_bytes + 2048;

  uint32_t ring, tile, staging, full, empty, tile_full, tile_empty, statistics_full;
  float *statistics;
  Announcements tiles;  // with a mask

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

}  // namespace gpt2::sm90::backward
