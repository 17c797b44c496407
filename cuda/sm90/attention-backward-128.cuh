// Attention backward on Hopper, head size 128: what attention-queries-128.cuh and attention-keys-128.cuh share. The two
// kernels are those of head size 64 (attention-backward.cu), with what twice the channels need: the accumulators of 64
// lines fill a thread's registers, and a tile's own operands, in two buffers, fill 128 of the 227 KB of shared memory,
// so the ring is shorter and results are staged where their operands were.
#pragma once

#include "attention.cuh"

namespace gpt2 {
namespace sm90 {
namespace backward_128 {

constexpr int consumers = 2;
constexpr int tile_lines = consumers * 64;
constexpr int threads = (1 + consumers) * 128;

// A warpgroup's 64 lines of an operand are a box of their own. Sixteen of them hold a warp's results at the end.
constexpr int own_lines = 64;
constexpr int own_bytes = 2 * own_lines * line_bytes;
constexpr int staging_bytes = own_bytes / 4;
constexpr int own_pair_bytes = 2 * consumers * own_bytes;  // q, dout; or k, v

// The statistics of 64 queries that the kernel for keys reads, as in attention-backward.cuh.
constexpr int statistics_lines = 64;
constexpr int statistics_count = 2 * statistics_lines;
constexpr int statistics_bytes = statistics_count * static_cast<int>(sizeof(float));

__device__ __forceinline__ float *statistics_of(float *all, const AttentionArguments &arguments, const HeadTile &unit,
                                                int query) {
  constexpr int blocks = tile_lines / statistics_lines;
  return all + (static_cast<int64_t>(unit.row) * arguments.tiles * blocks + query / statistics_lines) * statistics_count;
}

// Loads a tile of two tensors, of the heads of index head_a and head_b in their maps.
__device__ __forceinline__ void load_own(uint32_t own, const CUtensorMap &a, int head_a, const CUtensorMap &b,
                                         int head_b, int first, int batch, uint32_t barrier) {
  barrier_expect(barrier, own_pair_bytes);
  for (int i = 0; i < consumers; i++) {
    load_box(own + i * own_bytes, a, 0, first + i * own_lines, head_a * 2, batch, barrier);
    load_box(own + (consumers + i) * own_bytes, b, 0, first + i * own_lines, head_b * 2, batch, barrier);
  }
}

}  // namespace backward_128
}  // namespace sm90
}  // namespace gpt2
