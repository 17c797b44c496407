// Attention forward on Hopper, head size 128: attention-forward.cu's online softmax, with matmuls in another order.
//
// A block has a producer and two warpgroups of 64 queries. The 240 registers of a thread hold the result of 64 x 128
// (64 registers), the scores of a block of 128 keys (64) and the probabilities of the previous block as an operand
// (32). A warpgroup issues the matmul for a block's scores, then the matmul of the previous block's probabilities with
// v, and computes exponentials while the second runs. Blocks of keys go from the diagonal down to key 0; the causal
// mask affects only the first. The ring holds k and v in the order of use: k of a block, then v of the previous block.
#pragma once

#include "attention.cuh"

namespace gpt2::sm90::forward_128 {

constexpr int consumers = 2;
constexpr int tile_lines = consumers * 64;
constexpr int threads = (1 + consumers) * 128;
constexpr int stages = 4;
constexpr int tile_bytes = 2 * block_bytes;  // q, k or v
constexpr int shared_bytes = (stages + 2 + 1) * tile_bytes + 2048;
static_assert(tile_lines == block_lines, "the last block of a tile is its diagonal");

template <bool MASKED>
__global__ void __launch_bounds__(threads, 1)
    forward_kernel(const __grid_constant__ CUtensorMap qkv_map, const __grid_constant__ CUtensorMap out_map, float *lse,
                   const AttentionArguments arguments, float scale_log2) {
  extern __shared__ unsigned char memory[];
  const uint32_t ring = (shared_address(memory) + 1023) & ~1023u;
  const uint32_t q_shared = ring + stages * tile_bytes;
  const uint32_t staging = q_shared + 2 * tile_bytes;
  const uint32_t full = staging + tile_bytes, empty = full + stages * 8;
  const uint32_t q_full = empty + stages * 8, q_empty = q_full + 2 * 8;
  Announcements tiles(memory, q_empty + 2 * 8);  // only with a mask
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  const auto init = [&] {
    init_ring<stages>(full, empty, consumers * 4);
    init_ring<2>(q_full, q_empty, consumers * 4);
  };
  begin_kernel<MASKED>(tiles, init, qkv_map, out_map);

  const int T = arguments.T, NH = arguments.NH;
  // Tile 0 is at the end of the sequence, where queries attend to the most keys.
  const auto first_of = [&](const HeadTile &unit) { return (arguments.tiles - 1 - unit.tile) * tile_lines; };
  HeadTile unit;
  RingPosition<stages> at;
  RingPosition<2> q_at;
  if (warpgroup == 0) {
    decrease_registers<24>();
    if (warp != 0 || lane != 0) return;
    // Loads a block of one of the 3 NH heads of qkv (q, then k, then v), from position `key` on, into the next stage.
    const auto load_block = [&](int head, int key, int b) {
      barrier_wait(empty + at.stage * 8, at.parity ^ 1);
      barrier_expect(full + at.stage * 8, tile_bytes);
      load_box(ring + at.stage * tile_bytes, qkv_map, 0, key, head * 2, b, full + at.stage * 8);
      at.advance();
    };
    const auto load_tile = [&](const Ticket &ticket, auto announce) {
      const int first = first_of(unit);
      barrier_wait(q_empty + q_at.stage * 8, q_at.parity ^ 1);
      const int begin = MASKED ? ticket.of_first[0] : 0;
      announce();
      barrier_expect(q_full + q_at.stage * 8, tile_bytes);
      load_box(q_shared + q_at.stage * tile_bytes, qkv_map, 0, first, unit.head * 2, unit.b, q_full + q_at.stage * 8);
      q_at.advance();
      load_block(NH + unit.head, first, unit.b);
      int key = first;
      for (; key > begin; key -= block_lines) {
        load_block(NH + unit.head, key - block_lines, unit.b);
        load_block(2 * NH + unit.head, key, unit.b);
      }
      load_block(2 * NH + unit.head, MASKED ? key : 0, unit.b);
    };
    produce<MASKED, consumers, false>(arguments, unit, tiles, first_of, load_tile);
    return;
  }

  increase_registers<240>();
  const int consumer = warpgroup - 1;
  const uint32_t warp_staging = staging + (consumer * 4 + warp) * (2 * 16 * line_bytes);
  for (int index = 0; tiles.take<MASKED>(arguments, index, unit); index++) {
    const int tile_first = first_of(unit), line = warp * 16 + lane / 4;  // rows of the thread: line, line + 8
    // begin, until: the first key of the warpgroup's first and last query. From `until` on only causality masks keys.
    const int begin = MASKED ? uniform(tiles.last().of_first[consumer]) : 0;
    const int until = MASKED ? uniform(tiles.last().of_last[consumer]) : 0;
    float result[64] = {};
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    uint32_t share[block_lines / 16][4];
    const Operand q = k_major(uniform(q_shared + q_at.stage * tile_bytes + consumer * (64 * line_bytes)));
    // multiply_keys() and multiply_values() wait for the next stage and issue the matmul with its k or v.
    const auto multiply_keys = [&](auto &score) {
      barrier_wait(full + at.stage * 8, at.parity);
      const Operand k = k_major(uniform(ring + at.stage * tile_bytes));
      hold(score);
      wgmma_fence();
      multiply_channels<128>(score, q, k);
      wgmma_commit();
    };
    const auto multiply_values = [&] {
      barrier_wait(full + at.stage * 8, at.parity);
      const Operand v = mn_major<block_lines>(uniform(ring + at.stage * tile_bytes));
      hold(result);
      hold(share);
      wgmma_fence();
      multiply_rows(result, share, v);
      wgmma_commit();
    };
    const auto release = [&](uint32_t stage) {
      if (lane == 0) barrier_arrive(empty + stage * 8);
    };
    const auto skip = [&] { at.skip(full, empty, lane == 0); };
    // Reads the range of keys that each row attends to, again for each block, because no register is free to keep it.
    Range range[2];
    const auto read_ranges = [&](int key) {
      if (!MASKED || key >= until) return;
      const int row = tile_first + consumer * 64 + line;
      for (int half = 0; half < 2; half++) range[half] = arguments.mask.keys_of(unit.b, row + half * 8, T);
    };
    // Sets the scores of keys outside of a row's range to -inf; the block begins at `key`.
    const auto mask = [&](auto &score, int key) {
      constexpr int COUNT = std::extent_v<std::remove_reference_t<decltype(score)>>;
#pragma unroll
      for (int i = 0; i < COUNT; i++) {
        if (range[i / 2 % 2].hides(key + i / 4 * 8 + lane % 4 * 2 + i % 2)) score[i] = -INFINITY;
      }
    };
    // Computes the probabilities of the diagonal block's first KEYS keys. The causal mask hides keys only in the last
    // 64.
    const auto take_first = [&](auto keys) {
      constexpr int KEYS = decltype(keys)::value;
      float score[KEYS / 2], factor[2];
      const uint32_t stage = at.stage;
      multiply_keys(score);
      at.advance();
      read_ranges(tile_first);
      wgmma_wait<0>();
      hold(score);
      release(stage);
      if (MASKED && tile_first < until) {
        mask(score, tile_first);
      } else {
#pragma unroll
        for (int i = (KEYS - 64) / 2; i < KEYS / 2; i++) {
          if (i / 4 * 8 - (KEYS - 64) + lane % 4 * 2 + i % 2 > line + i / 2 % 2 * 8) score[i] = -INFINITY;
        }
      }
      exponentiate<false>(score, largest, sum, scale_log2, factor);
#pragma unroll
      for (int i = 0; i < KEYS / 16; i++) as_operand(share[i], score, i);
#pragma unroll
      for (int i = KEYS / 16; i < block_lines / 16; i++) share[i][0] = share[i][1] = share[i][2] = share[i][3] = 0;
    };
    // Computes the probabilities of the block of keys at `key`, while the previous block's matmul with v runs.
    const auto take = [&](int key) {
      float score[block_lines / 2], factor[2];
      const uint32_t k_stage = at.stage;
      multiply_keys(score);
      at.advance();
      const uint32_t v_stage = at.stage;
      multiply_values();
      at.advance();
      read_ranges(key);
      wgmma_wait<1>();
      hold(score);
      release(k_stage);
      if (MASKED && key < until) mask(score, key);
      exponentiate<false>(score, largest, sum, scale_log2, factor);
      wgmma_wait<0>();
      hold(result);
      release(v_stage);
#pragma unroll
      for (int i = 0; i < 64; i++) result[i] *= factor[i / 2 % 2];
      as_operands(share, score);
    };
    barrier_wait(q_full + q_at.stage * 8, q_at.parity);
    // The first warpgroup skips the last 64 keys of the diagonal block, which come after all of its queries.
    if (consumer == 0) {
      take_first(Half{});
    } else {
      take_first(Full{});
    }
    int key = tile_first;
    for (; key > begin; key -= block_lines) take(key - block_lines);
    // If the other warpgroup needs earlier keys than this one, the next stage holds k of a block to skip.
    const int all = MASKED ? uniform(tiles.last().of_first[0]) : 0;
    const bool skips = MASKED && key > all;
    if (skips) skip();
    multiply_values();
    wgmma_wait<0>();
    hold(result);
    release(at.stage);
    at.advance();
    if constexpr (MASKED) {
      if (skips) {
        for (key -= block_lines; key > all; key -= block_lines) {
          skip();
          skip();
        }
        skip();
      }
    }
    if constexpr (MASKED) __syncwarp();
    if (lane == 0) {
      barrier_arrive(q_empty + q_at.stage * 8);
      wait_stores_read<0>();
    }
    __syncwarp();
    q_at.advance();

    const int row = tile_first + consumer * 64 + line;
    float inverse[2];
    finish_rows(inverse, lse, unit, row, T, largest, sum, scale_log2);
    store_lines(out_map, unit.head, tile_first + consumer * 64 + warp * 16, unit.b, warp_staging, result, inverse);
    if (lane == 0) commit_stores();
  }
  if (lane == 0) wait_stores_read<0>();
}

}  // namespace gpt2::sm90::forward_128
