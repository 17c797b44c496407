// Attention backward on Hopper, head size 128: the kernel that owns keys and computes dk and dv.
//
// dk and dv of a warpgroup's 64 keys take 128 registers of each thread, so a step takes only 64 queries.
#pragma once

#include "attention-backward.cuh"

namespace gpt2::sm90::backward_128 {

constexpr int keys_stages = 3;
constexpr int query_lines = statistics_lines;              // queries of a step
constexpr int query_bytes = 2 * query_lines * line_bytes;  // a step's q or dout
constexpr int keys_stage_bytes = 2 * query_bytes;          // a step's q and dout
// 1024 bytes allow for the alignment of the ring, 256 are for barriers and tickets.
constexpr int keys_shared_bytes =
    keys_stages * (keys_stage_bytes + statistics_bytes) + 2 * consumers * strip_pair_bytes + 1024 + 256;

// Scores, probabilities and their gradients are transposed: lines are keys, columns are queries.
template <bool MASKED>
__global__ void __launch_bounds__(threads, 1)
    keys_kernel(const __grid_constant__ CUtensorMap qkv_map, const __grid_constant__ CUtensorMap dout_map,
                const __grid_constant__ CUtensorMap dqkv_map, float *all_statistics, const AttentionArguments arguments,
                float scale) {
  extern __shared__ unsigned char memory[];
  const uint32_t begin = shared_address(memory), ring = (begin + 1023) & ~1023u;
  const uint32_t strips = ring + keys_stages * keys_stage_bytes;
  const uint32_t all_statistics_shared = strips + 2 * consumers * strip_pair_bytes;
  const uint32_t full = all_statistics_shared + keys_stages * statistics_bytes, empty = full + keys_stages * 8;
  const uint32_t strip_full = empty + keys_stages * 8, strip_empty = strip_full + 2 * 8;
  Announcements tiles(memory, strip_empty + 2 * 8);  // only with a mask
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  const auto init = [&] {
    init_ring<keys_stages>(full, empty, consumers * 128);
    init_ring<2>(strip_full, strip_empty, consumers * 4);
  };
  begin_kernel<MASKED>(tiles, init, qkv_map, dout_map, dqkv_map);

  const int T = arguments.T, NH = arguments.NH;
  HeadTile unit{};
  RingPosition<keys_stages> at;
  RingPosition<2> strip_at;
  if (warpgroup == 0) {
    decrease_registers<24>();
    if (warp != 0 || lane != 0) return;
    const auto load_tile = [&](const Ticket &ticket, auto announce) {
      const int first = unit.tile * tile_lines;
      barrier_wait(strip_empty + strip_at.stage * 8, strip_at.parity ^ 1);
      const int end = MASKED ? ticket.of_last[consumers - 1] + 1 : T;
      announce();
      barrier_expect(strip_full + strip_at.stage * 8, consumers * strip_pair_bytes);
      for (int i = 0; i < consumers; i++) {
        const uint32_t strip = strips + (strip_at.stage * consumers + i) * strip_pair_bytes;
        const int key = first + i * strip_lines;
        load_box(strip, qkv_map, 0, key, (NH + unit.head) * 2, unit.b, strip_full + strip_at.stage * 8);
        load_box(strip + strip_bytes, qkv_map, 0, key, (2 * NH + unit.head) * 2, unit.b,
                 strip_full + strip_at.stage * 8);
      }
      strip_at.advance();
      for (int query = first; query < end; query += query_lines) {
        const uint32_t q = ring + at.stage * keys_stage_bytes, barrier = full + at.stage * 8;
        barrier_wait(empty + at.stage * 8, at.parity ^ 1);
        barrier_expect(barrier, keys_stage_bytes + statistics_bytes);
        load_box(q, qkv_map, 0, query, unit.head * 2, unit.b, barrier);
        load_box(q + query_bytes, dout_map, 0, query, unit.head * 2, unit.b, barrier);
        load_bytes(all_statistics_shared + at.stage * statistics_bytes,
                   statistics_of<statistics_lines>(all_statistics, arguments, unit, query), statistics_bytes, barrier);
        at.advance();
      }
    };
    const auto first_of = [](const HeadTile &next) { return next.tile * tile_lines; };
    produce<MASKED, consumers, true>(arguments, unit, tiles, first_of, load_tile);
    return;
  }

  increase_registers<240>();
  const int consumer = warpgroup - 1;
  const float scale_log2 = scale * log2e;
  for (int index = 0; tiles.take<MASKED>(arguments, index, unit); index++) {
    const int tile_first = unit.tile * tile_lines, first = tile_first + consumer * strip_lines;
    const int line = warp * 16 + lane / 4;  // the thread's keys in the warpgroup: line, line + 8
    const uint32_t strip = uniform(strips + (strip_at.stage * consumers + consumer) * strip_pair_bytes);
    const Operand k = k_major(strip), v = k_major(strip + strip_bytes);
    float dkey[64] = {}, dvalue[64] = {};
    uint32_t previous = 0;
    barrier_wait(strip_full + strip_at.stage * 8, strip_at.parity);
    // Queries at positions below `all` attend to all keys of this warpgroup, queries from own_end on to none of them.
    const int all = MASKED ? uniform(tiles.last().of_first[consumer]) + 1 : T;
    const int own_end = MASKED ? uniform(tiles.last().of_last[consumer]) + 1 : T;
    // Adds the terms of the block of queries at `query` to dk and dv. `masks`: some queries do not attend to some keys,
    // as in the first block, where a query may precede a key, and, with a mask, in the last blocks.
    const auto take = [&](auto is_first, auto masks, int query) {
      constexpr bool IS_FIRST = decltype(is_first)::value, MASKS = decltype(masks)::value;
      const uint32_t shared = uniform(ring + at.stage * keys_stage_bytes);
      const Operand q = k_major(shared), gradient = k_major(shared + query_bytes);
      const Operand q_as_rows = mn_major<query_lines>(shared);
      const Operand gradient_as_rows = mn_major<query_lines>(shared + query_bytes);
      const float *statistics = reinterpret_cast<const float *>(
          memory + (all_statistics_shared + at.stage * statistics_bytes - begin) + lane % 4 * 2 * sizeof(float));
      float share[query_lines / 2], dscore[query_lines / 2];
      barrier_wait(full + at.stage * 8, at.parity);
      hold(share);
      wgmma_fence();
      multiply_channels<128, strip_lines, query_lines>(share, k, q);
      wgmma_commit();
      wgmma_wait<1>();
      if (!IS_FIRST) barrier_arrive(empty + previous * 8);
      hold(dscore);
      wgmma_fence();
      multiply_channels<128, strip_lines, query_lines>(dscore, v, gradient);
      wgmma_commit();
      // The ranges are read again for each block of queries, because no register is free to keep them.
      [[maybe_unused]] Range range[2];  // the queries that attend to each key
      if constexpr (MASKED && MASKS) {
        for (int half = 0; half < 2; half++) {
          const int key = first + line + half * 8;
          range[half] = {key, INT32_MAX};
          if (query + query_lines > all) range[half] = arguments.mask.queries_of(unit.b, key, T);
        }
      }
      wgmma_wait<1>();
      hold(share);
      probabilities_of_keys<MASKS>(share, statistics, scale_log2, [&](int j, int i) {
        const int column = j * 8 + lane % 4 * 2 + i % 2;
        return MASKED ? range[i / 2].hides(query + column) : line + i / 2 * 8 > column;
      });
      uint32_t share_operand[query_lines / 16][4];
      as_operands(share_operand, share);
      hold(dvalue);
      hold(share_operand);
      wgmma_fence();
      multiply_rows(dvalue, share_operand, gradient_as_rows);
      wgmma_commit();
      wgmma_wait<1>();
      hold(dscore);
      gradients_of_keys(dscore, share, statistics + statistics_lines);
      uint32_t dscore_operand[query_lines / 16][4];
      as_operands(dscore_operand, dscore);
      hold(dkey);
      hold(dscore_operand);
      wgmma_fence();
      multiply_rows(dkey, dscore_operand, q_as_rows);
      wgmma_commit();
      previous = at.stage;
      at.advance();
    };
    // The second warpgroup skips the first 64 queries, which precede all of its keys.
    int query = tile_first;
    for (; query < first; query += query_lines) at.skip(full, empty, true);
    if (query < T) {
      take(std::true_type{}, std::true_type{}, query);
      query += query_lines;
      if constexpr (MASKED) {
        // Adds the blocks of queries that attend to all keys of the warpgroup, then the blocks that attend to some.
        const int end = uniform(tiles.last().of_last[consumers - 1]) + 1, some = min(end, own_end);
        for (; query + query_lines <= min(all, end); query += query_lines) {
          take(std::false_type{}, std::false_type{}, query);
        }
        for (; query < some; query += query_lines) take(std::false_type{}, std::true_type{}, query);
        wgmma_wait<0>();
        barrier_arrive(empty + previous * 8);
        for (; query < end; query += query_lines) at.skip(full, empty, true);
      } else {
        for (; query < T; query += query_lines) take(std::false_type{}, std::false_type{}, query);
        wgmma_wait<0>();
        barrier_arrive(empty + previous * 8);
      }
    }
    hold(dkey);
    hold(dvalue);
    // The results replace k and v in shared memory, so all four warps must first have read k and v.
    warpgroup_sync(warpgroup);
    const float scales[2] = {scale, scale}, ones[2] = {1, 1};
    const uint32_t staging = strip + warp * staging_bytes;
    store_lines(dqkv_map, NH + unit.head, first + warp * 16, unit.b, staging, dkey, scales);
    store_lines(dqkv_map, 2 * NH + unit.head, first + warp * 16, unit.b, staging + strip_bytes, dvalue, ones);
    if (lane == 0) {
      commit_stores();
      wait_stores_read<0>();
      barrier_arrive(strip_empty + strip_at.stage * 8);
    }
    strip_at.advance();
  }
}

}  // namespace gpt2::sm90::backward_128
