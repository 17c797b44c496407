// Attention forward on Hopper, head size 64: FlashAttention's online softmax (Dao et al. 2022; Shah et al. 2024 for
// Hopper).
//
// A block has a producer and three warpgroups of 64 queries, which share blocks of 128 keys and values. The 160
// registers of a thread hold the scores of 64 x 128 (64 registers), the result (32) and the probabilities as an operand
// (32). A warpgroup issues the matmul for its next scores before its previous matmul with v is complete. Tiles of 192
// queries are counted from the end of the sequence, so that the partial tile is the tile with the fewest keys. The end
// is rounded up to the 16 lines that a warp stores, because a stored box may not begin before the tensor.
#include "../common/tensor-cores.h"
#include "attention-forward-128.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

constexpr int consumers = 3;
constexpr int tile_lines = consumers * 64;
constexpr int threads = (1 + consumers) * 128;
constexpr int stages = 4;
constexpr int stage_bytes = 2 * block_bytes;  // blocks of k and v
constexpr int q_bytes = tile_lines * line_bytes;
constexpr int staging_bytes = consumers * 64 * line_bytes;
constexpr int shared_bytes = stages * stage_bytes + 2 * q_bytes + staging_bytes + 2048;

template <bool MASKED>
__global__ void __launch_bounds__(threads, 1)
    forward_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap kv_map,
                   const __grid_constant__ CUtensorMap out_map, float *lse, const AttentionArguments arguments,
                   float scale_log2) {
  extern __shared__ unsigned char memory[];
  const uint32_t ring = (shared_address(memory) + 1023) & ~1023u;
  const uint32_t q_shared = ring + stages * stage_bytes;
  const uint32_t staging = q_shared + 2 * q_bytes;
  const uint32_t full = staging + staging_bytes, empty = full + stages * 8;
  const uint32_t q_full = empty + stages * 8, q_empty = q_full + 2 * 8;
  Announcements tiles(memory, q_empty + 2 * 8);  // only with a mask
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  const auto init = [&] {
    init_ring<stages>(full, empty, consumers * 4);
    init_ring<2>(q_full, q_empty, consumers * 4);
  };
  begin_kernel<MASKED>(tiles, init, q_map, kv_map, out_map);

  const int T = arguments.T, NH = arguments.NH;
  // The position after the last query of a tile. Tile 0 is at the end of the sequence.
  const auto end_of = [&](const HeadTile &unit) { return (T + 15) / 16 * 16 - unit.tile * tile_lines; };
  HeadTile unit;
  RingPosition<stages> at;
  RingPosition<2> q_at;
  if (warpgroup == 0) {
    decrease_registers<32>();
    if (warp != 0 || lane != 0) return;
    const auto load_tile = [&](const Ticket &ticket, auto announce) {
      const int end = end_of(unit);
      barrier_wait(q_empty + q_at.stage * 8, q_at.parity ^ 1);
      const int begin = MASKED ? ticket.of_first[0] : 0;
      announce();
      barrier_expect(q_full + q_at.stage * 8, q_bytes);
      load_box(q_shared + q_at.stage * q_bytes, q_map, 0, end - tile_lines, unit.head, unit.b, q_full + q_at.stage * 8);
      q_at.advance();
      for (int key = begin; key < min(end, T); key += block_lines) {
        const uint32_t k = ring + at.stage * stage_bytes, barrier = full + at.stage * 8;
        barrier_wait(empty + at.stage * 8, at.parity ^ 1);
        barrier_expect(barrier, stage_bytes);
        load_box(k, kv_map, 0, key, NH + unit.head, unit.b, barrier);
        load_box(k + block_bytes, kv_map, 0, key, 2 * NH + unit.head, unit.b, barrier);
        at.advance();
      }
    };
    const auto first_of = [&](const HeadTile &next) { return end_of(next) - tile_lines; };
    produce<MASKED, consumers, false>(arguments, unit, tiles, first_of, load_tile);
    return;
  }

  increase_registers<160>();
  const int consumer = warpgroup - 1;
  const uint32_t warp_staging = staging + (consumer * 4 + warp) * (16 * line_bytes);
  const auto skip = [&] { at.skip(full, empty, lane == 0); };
  for (int index = 0; tiles.take<MASKED>(arguments, index, unit); index++) {
    const int end = end_of(unit);
    const int first = end - tile_lines + consumer * 64;  // the warpgroup's first query; below 0 in a partial tile
    const int row = first + warp * 16 + lane / 4;        // the thread's rows are row and row + 8
    float result[32] = {};
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    uint32_t previous = 0;
    const Operand q = k_major(uniform(q_shared + q_at.stage * q_bytes + consumer * (64 * line_bytes)));
    barrier_wait(q_full + q_at.stage * 8, q_at.parity);
    int key = 0, begin = 0, until = 0;  // until: the largest first key of the warpgroup's queries
    Range range[2];  // the keys that each row attends to
    if constexpr (MASKED) {
      for (int half = 0; half < 2; half++) range[half] = arguments.mask.keys_of(unit.b, row + half * 8, T);
      begin = key = skip_to_own(tiles.last(), consumer, skip);
      until = uniform(tiles.last().of_last[consumer]);
    }
    // Adds the first KEYS keys of the block that begins at `key` to the softmax and to the result.
    const auto take = [&](auto keys) {
      constexpr int KEYS = decltype(keys)::value;
      barrier_wait(full + at.stage * 8, at.parity);
      const uint32_t shared = uniform(ring + at.stage * stage_bytes);
      const Operand k = k_major(shared), v = mn_major<block_lines>(shared + block_bytes);
      float score[KEYS / 2];
      hold(score);
      wgmma_fence();
      multiply_channels<64>(score, q, k);
      wgmma_commit();
      wgmma_wait<0>();
      hold(score);
      hold(result);
      if (key > begin && lane == 0) barrier_arrive(empty + previous * 8);
      if (MASKED ? key < until || key + KEYS - 1 > first : KEYS < block_lines || key + block_lines - 1 > first) {
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
          const int column = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (MASKED ? range[i / 2 % 2].hides(column) : column > row + i / 2 % 2 * 8) score[i] = -INFINITY;
        }
      }
      float factor[2];
      exponentiate<MASKED>(score, largest, sum, scale_log2, factor);
#pragma unroll
      for (int i = 0; i < 32; i++) result[i] *= factor[i / 2 % 2];
      uint32_t share[KEYS / 16][4];
      as_operands(share, score);
      hold(result);
      hold(share);
      wgmma_fence();
      multiply_rows(result, share, v);
      wgmma_commit();
      previous = at.stage;
      at.advance();
    };
    const int needed = min(first + 64, T);
    for (; key < needed - block_lines / 2; key += block_lines) take(Full{});
    if (key < needed) {
      take(Half{});
      key += block_lines;
    }
    wgmma_wait<0>();
    hold(result);
    if (key > begin && lane == 0) barrier_arrive(empty + previous * 8);
    // Releases the blocks of keys that only queries of other warpgroups attend to.
    for (; key < min(end, T); key += block_lines) skip();
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(q_empty + q_at.stage * 8);
      wait_stores_read<0>();
    }
    __syncwarp();
    q_at.advance();
    if (first + warp * 16 < 0) continue;

    float inverse[2];
    finish_rows(inverse, lse, unit, row, T, largest, sum, scale_log2);
    store_lines(out_map, unit.head, first + warp * 16, unit.b, warp_staging, result, inverse);
    if (lane == 0) commit_stores();
  }
  if (lane == 0) wait_stores_read<0>();
}

}  // namespace

void sm90::attention_forward(const CudaContext &context, bf16 *out, float *lse, const bf16 *qkv,
                             const AttentionSizes &sizes) {
  const bool is_128 = sizes.HS == 128;
  if (!is_128 && sizes.HS != 64) return sm80::attention_forward(context, out, lse, qkv, sizes);
  const AttentionArguments arguments(context, sizes, is_128 ? forward_128::tile_lines : tile_lines);
  const auto map = [&](const bf16 *tensor, int heads, int64_t stride, int lines) {
    return heads_map(tensor, heads, sizes.HS, sizes.T, sizes.B, stride, lines);
  };
  const CUtensorMap kv_map = map(qkv, 3 * sizes.NH, sizes.stride(), block_lines);
  const CUtensorMap out_map = map(out, sizes.NH, sizes.C, 16);
  const unsigned blocks = arguments.blocks(context);
  const float scale_log2 = log2e / sqrtf(static_cast<float>(sizes.HS));
  with_mask(sizes, [&](auto masked) {
    if (is_128) {
      launch_overlapping(context, forward_128::forward_kernel<masked>, blocks, forward_128::threads,
                         forward_128::shared_bytes, kv_map, out_map, lse, arguments, scale_log2);
    } else {
      launch_overlapping(context, forward_kernel<masked>, blocks, threads, shared_bytes,
                         map(qkv, 3 * sizes.NH, sizes.stride(), tile_lines), kv_map, out_map, lse, arguments,
                         scale_log2);
    }
  });
}

}  // namespace gpt2
