// Attention backward on Hopper, head size 128: constants that attention-queries-128.cuh and attention-keys-128.cuh
// share. The two kernels are those of head size 64 (attention-backward.cu), except that twice the channels need another
// division of registers and of shared memory: rings are shorter, and results are staged where the warpgroup's strip of
// operands was.
#pragma once

#include "attention-gradients.cuh"

namespace gpt2::sm90::backward_128 {

constexpr int consumers = 2;
constexpr int tile_lines = consumers * 64;
static_assert(tile_lines == block_lines, "the launch counts tiles of block_lines");
constexpr int threads = (1 + consumers) * 128;

// A strip: the 64 lines of an operand that a warpgroup owns, loaded as one box. At the end it stages results.
constexpr int strip_lines = 64;
constexpr int strip_bytes = 2 * strip_lines * line_bytes;
constexpr int staging_bytes = strip_bytes / 4;
constexpr int strip_pair_bytes = 2 * strip_bytes;  // q, dout; or k, v

// The statistics of 64 queries that the kernel for keys reads, as in attention-backward.cuh.
constexpr int statistics_lines = 64;
constexpr int statistics_count = 2 * statistics_lines;
constexpr int statistics_bytes = statistics_count * static_cast<int>(sizeof(float));

__device__ __forceinline__ float *statistics_of(float *all, const AttentionArguments &arguments, const HeadTile &unit,
                                                int query) {
  const int64_t blocks = arguments.tiles * (tile_lines / statistics_lines);
  return all + (unit.row * blocks + query / statistics_lines) * statistics_count;
}

}  // namespace gpt2::sm90::backward_128
