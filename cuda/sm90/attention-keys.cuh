// Attention backward on Hopper, head size 64: the kernel that owns keys and computes dk and dv.
#pragma once

#include "attention-backward.cuh"

namespace gpt2::sm90::backward {

// Scores, probabilities and their gradients are transposed: lines are keys, columns are queries.
template <bool MASKED>
__global__ void __launch_bounds__(threads, 1)
    keys_kernel(const __grid_constant__ CUtensorMap qkv_map, const __grid_constant__ CUtensorMap dout_map,
                const __grid_constant__ CUtensorMap dqkv_map, float *all_statistics, const AttentionArguments arguments,
                float scale) {
  extern __shared__ unsigned char memory[];
  constexpr int stages = 4, tile_bytes = KeysLayout::tile_bytes;
  const KeysLayout layout(memory);
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  const auto init = [&] {
    init_ring<stages>(layout.full, layout.empty, consumers * 128);
    init_ring<2>(layout.tile_full, layout.tile_empty, consumers * 4);
  };
  begin_kernel<MASKED>(layout.tiles, init, qkv_map, dout_map, dqkv_map);

  const int T = arguments.T, NH = arguments.NH;
  HeadTile unit{};
  Announcements tiles = layout.tiles;
  RingPosition<stages> at;
  RingPosition<2> tile_at;
  if (warpgroup == 0) {
    decrease_registers<40>();
    if (warp == 0 && lane == 0) {
      const auto load_tile = [&](const Ticket &ticket, auto announce) {
        const int first = unit.tile * tile_lines;
        const uint32_t tile = layout.tile + tile_at.stage * tile_bytes,
                       tile_barrier = layout.tile_full + tile_at.stage * 8;
        barrier_wait(layout.tile_empty + tile_at.stage * 8, tile_at.parity ^ 1);
        const int end = MASKED ? ticket.of_last[consumers - 1] + 1 : T;
        announce();
        barrier_expect(tile_barrier, tile_bytes);
        load_box(tile, qkv_map, 0, first, NH + unit.head, unit.b, tile_barrier);
        load_box(tile + block_bytes, qkv_map, 0, first, 2 * NH + unit.head, unit.b, tile_barrier);
        tile_at.advance();
        for (int query = first; query < end; query += block_lines) {
          const uint32_t q = layout.ring + at.stage * stage_bytes, barrier = layout.full + at.stage * 8;
          barrier_wait(layout.empty + at.stage * 8, at.parity ^ 1);
          barrier_expect(barrier, stage_bytes + statistics_bytes);
          load_box(q, qkv_map, 0, query, unit.head, unit.b, barrier);
          load_box(q + block_bytes, dout_map, 0, query, unit.head, unit.b, barrier);
          load_bytes(shared_address(layout.statistics + at.stage * statistics_count),
                     statistics_of<statistics_lines>(all_statistics, arguments, unit, query), statistics_bytes,
                     barrier);
          at.advance();
        }
      };
      const auto first_of = [](const HeadTile &next) { return next.tile * tile_lines; };
      produce<MASKED, consumers, true>(arguments, unit, tiles, first_of, load_tile);
    }
    return;
  }

  increase_registers<232>();
  const int consumer = warpgroup - 1;
  const uint32_t warp_staging = layout.staging + (consumer * 4 + warp) * (16 * line_bytes);
  const float scale_log2 = scale * log2e;
  for (int index = 0; tiles.take<MASKED>(arguments, index, unit); index++) {
    const int tile_first = unit.tile * tile_lines, first = tile_first + consumer * 64;
    const int key = first + warp * 16 + lane / 4;  // the thread's keys are key and key + 8
    const uint32_t tile = layout.tile + tile_at.stage * tile_bytes + consumer * (64 * line_bytes);
    const Operand k = k_major(tile), v = k_major(tile + block_bytes);
    float dkey[32] = {}, dvalue[32] = {};
    barrier_wait(layout.tile_full + tile_at.stage * 8, tile_at.parity);
    // Queries at positions below `all` attend to all keys of this warpgroup, queries from own_end on to none of them.
    const int all = MASKED ? uniform(tiles.last().of_first[consumer]) + 1 : T;
    const int own_end = MASKED ? uniform(tiles.last().of_last[consumer]) + 1 : T;
    // Adds the terms of the last QUERIES queries of the block at `query` to dk and dv. `masks`: some of these queries
    // do not attend to some keys, as in the first block, where a query may precede a key, and, with a mask, in the last
    // blocks.
    const auto take = [&](auto queries, auto masks, int query) {
      constexpr int QUERIES = decltype(queries)::value, skipped = block_lines - QUERIES;
      const uint32_t shared = layout.ring + at.stage * stage_bytes + skipped * line_bytes;
      const Operand q = k_major(shared), gradient = k_major(shared + block_bytes);
      const Operand q_as_rows = mn_major<block_lines>(shared);
      const Operand gradient_as_rows = mn_major<block_lines>(shared + block_bytes);
      const float *statistics = layout.statistics + at.stage * statistics_count + skipped + lane % 4 * 2;
      float share[QUERIES / 2], dscore[QUERIES / 2];
      barrier_wait(layout.full + at.stage * 8, at.parity);
      hold(share);
      hold(dscore);
      wgmma_fence();
      multiply_channels<64>(share, k, q);
      wgmma_commit();
      multiply_channels<64>(dscore, v, gradient);
      wgmma_commit();
      // The ranges are read again for each block of queries, because no register is free to keep them.
      [[maybe_unused]] Range range[2];  // the queries that attend to each key
      if constexpr (MASKED && decltype(masks)::value) {
        for (int half = 0; half < 2; half++) {
          range[half] = {key + half * 8, INT32_MAX};
          if (query + block_lines > all) range[half] = arguments.mask.queries_of(unit.b, key + half * 8, T);
        }
      }
      wgmma_wait<1>();
      hold(share);
      probabilities_of_keys<decltype(masks)::value>(share, statistics, scale_log2, [&](int j, int i) {
        const int column = query + skipped + j * 8 + lane % 4 * 2 + i % 2;
        return MASKED ? range[i / 2].hides(column) : key + i / 2 * 8 > column;
      });
      uint32_t share_operand[QUERIES / 16][4];
      as_operands(share_operand, share);
      wgmma_wait<0>();
      hold(dscore);
      gradients_of_keys(dscore, share, statistics + block_lines);
      uint32_t dscore_operand[QUERIES / 16][4];
      as_operands(dscore_operand, dscore);
      hold(dkey);
      hold(dvalue);
      hold(share_operand);
      hold(dscore_operand);
      wgmma_fence();
      multiply_rows(dvalue, share_operand, gradient_as_rows);
      multiply_rows(dkey, dscore_operand, q_as_rows);
      wgmma_commit();
      wgmma_wait<0>();
      hold(dkey);
      hold(dvalue);
      barrier_arrive(layout.empty + at.stage * 8);
      at.advance();
    };
    // In the diagonal block only the last 64 queries attend to the last 64 keys, which the second warpgroup owns.
    if (consumer == 0) {
      take(Full{}, std::true_type{}, tile_first);
    } else {
      take(Half{}, std::true_type{}, tile_first);
    }
    int query = tile_first + block_lines;
    if constexpr (MASKED) {
      // Adds the blocks of queries that attend to all keys of the warpgroup, then to some keys; skips the other blocks.
      const int end = uniform(tiles.last().of_last[consumers - 1]) + 1, some = min(end, own_end);
      for (; query + block_lines <= min(all, end); query += block_lines) take(Full{}, std::false_type{}, query);
      for (; query < some; query += block_lines) take(Full{}, std::true_type{}, query);
      for (; query < end; query += block_lines) at.skip(layout.full, layout.empty, true);
    } else {
      for (; query < T; query += block_lines) take(Full{}, std::false_type{}, query);
    }
    if constexpr (MASKED) __syncwarp();
    if (lane == 0) {
      barrier_arrive(layout.tile_empty + tile_at.stage * 8);
      wait_stores_read<0>();
    }
    __syncwarp();
    tile_at.advance();
    const float scales[2] = {scale, scale}, ones[2] = {1, 1};
    store_lines(dqkv_map, NH + unit.head, first + warp * 16, unit.b, warp_staging, dkey, scales);
    if (lane == 0) {
      commit_stores();
      wait_stores_read<0>();
    }
    __syncwarp();
    store_lines(dqkv_map, 2 * NH + unit.head, first + warp * 16, unit.b, warp_staging, dvalue, ones);
    if (lane == 0) commit_stores();
  }
  if (lane == 0) wait_stores_read<0>();
}

}  // namespace gpt2::sm90::backward
