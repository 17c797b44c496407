// Attention backward on Hopper, head size 64: the kernel that owns queries computes dq and the statistics lse and D.
#pragma once

#include "attention-backward.cuh"

namespace gpt2::sm90::backward {

__device__ __forceinline__ uint4 load_chunk(uint32_t shared) {
  uint4 r;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(shared));
  return r;
}

template <bool MASKED>
__global__ void __launch_bounds__(threads, 1)
    queries_kernel(const __grid_constant__ CUtensorMap qkv_map, const __grid_constant__ CUtensorMap dout_map,
                   const __grid_constant__ CUtensorMap out_map, const __grid_constant__ CUtensorMap dqkv_map,
                   float *all_statistics, const float *lse, const AttentionArguments arguments, float scale) {
  extern __shared__ unsigned char memory[];
  constexpr int stages = 3, tile_bytes = QueriesLayout::tile_bytes;
  const QueriesLayout layout(memory);
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  const auto init = [&] {
    init_ring<stages>(layout.full, layout.empty, consumers * 4);
    for (int i = 0; i < 2; i++) {
      barrier_init(layout.tile_full + i * 8, 1);
      barrier_init(layout.tile_empty + i * 8, consumers * 4);
      barrier_init(layout.statistics_full + i * 8, 3 * 32);
    }
  };
  begin_kernel<MASKED>(layout.tiles, init, qkv_map, dout_map, dqkv_map);

  const int T = arguments.T, NH = arguments.NH;
  // Tile 0 is at the end of the sequence, where queries attend to the most keys.
  const auto first_of = [&](const HeadTile &unit) { return (arguments.tiles - 1 - unit.tile) * tile_lines; };
  HeadTile unit;
  RingPosition<stages> at;
  RingPosition<2> tile_at;
  Announcements tiles = layout.tiles;
  if (warpgroup == 0) {
    decrease_registers<40>();
    if (warp == 0) {
      if (lane != 0) return;
      const auto load_tile = [&](const Ticket &ticket, auto announce) {
        const int first = first_of(unit);
        const uint32_t tile = layout.tile + tile_at.stage * tile_bytes,
                       tile_barrier = layout.tile_full + tile_at.stage * 8;
        barrier_wait(layout.tile_empty + tile_at.stage * 8, tile_at.parity ^ 1);
        const int begin = MASKED ? ticket.of_first[0] : 0;
        announce();
        barrier_expect(tile_barrier, tile_bytes);
        load_box(tile, qkv_map, 0, first, unit.head, unit.b, tile_barrier);
        load_box(tile + block_bytes, dout_map, 0, first, unit.head, unit.b, tile_barrier);
        load_box(tile + 2 * block_bytes, out_map, 0, first, unit.head, unit.b, tile_barrier);
        tile_at.advance();
        for (int key = begin; key < min(first + tile_lines, T); key += block_lines) {
          const uint32_t k = layout.ring + at.stage * stage_bytes, barrier = layout.full + at.stage * 8;
          barrier_wait(layout.empty + at.stage * 8, at.parity ^ 1);
          barrier_expect(barrier, stage_bytes);
          load_box(k, qkv_map, 0, key, NH + unit.head, unit.b, barrier);
          load_box(k + block_bytes, qkv_map, 0, key, 2 * NH + unit.head, unit.b, barrier);
          at.advance();
        }
      };
      produce<MASKED, consumers, false>(arguments, unit, tiles, first_of, load_tile);
      return;
    }
    // Warps 1 to 3 compute D = row sums of dout * out, one tile ahead of the consumers. Eight lanes take a row.
    for (int index = 0; tiles.take<MASKED>(arguments, index, unit); index++) {
      const int first = first_of(unit);
      float *statistics = layout.statistics + tile_at.stage * statistics_count;
      float *kept = statistics_of<statistics_lines>(all_statistics, arguments, unit, first);
      const uint32_t gradient = layout.tile + tile_at.stage * tile_bytes + block_bytes;
      // Loads lse before the wait, which hides the latency of the loads.
      float row_lse[2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int line = (warp - 1) * 32 + lane + i * 96;
        row_lse[i] = line < tile_lines && first + line < T ? lse[unit.statistics + first + line] * log2e : INFINITY;
      }
      // The first wait, which the producer has done already, is only for racecheck, which sees no order by TMA.
      barrier_wait(layout.tile_empty + tile_at.stage * 8, tile_at.parity ^ 1);
      barrier_wait(layout.tile_full + tile_at.stage * 8, tile_at.parity);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int line = (warp - 1) * 32 + lane + i * 96;
        if (line < tile_lines) statistics[line] = kept[line] = row_lse[i];
      }
      for (int line = (warp - 1) * 4 + lane / 8; line < tile_lines; line += 12) {
        const uint32_t at_line = gradient + line * line_bytes + ((lane % 8 ^ (line & 7)) << 4);
        float total = dot_chunks(load_chunk(at_line), load_chunk(at_line + block_bytes));
#pragma unroll
        for (int offset = 4; offset > 0; offset /= 2) total += __shfl_xor_sync(0xffu << (lane & 24), total, offset);
        if (lane % 8 == 0) statistics[tile_lines + line] = kept[tile_lines + line] = total;
      }
      barrier_arrive(layout.statistics_full + tile_at.stage * 8);
      tile_at.advance();
    }
    return;
  }

  increase_registers<232>();
  const int consumer = warpgroup - 1;
  const uint32_t warp_staging = layout.staging + (consumer * 4 + warp) * (16 * line_bytes);
  const float scale_log2 = scale * log2e, scales[2] = {scale, scale};
  const auto skip = [&] { at.skip(layout.full, layout.empty, lane == 0); };
  for (int index = 0; tiles.take<MASKED>(arguments, index, unit); index++) {
    const int tile_first = first_of(unit), first = tile_first + consumer * 64;
    const int line = consumer * 64 + warp * 16 + lane / 4, row = tile_first + line;  // the thread's rows: row, row + 8
    const uint32_t tile = layout.tile + tile_at.stage * tile_bytes + consumer * (64 * line_bytes);
    const Operand q = k_major(tile), gradient = k_major(tile + block_bytes);
    float result[32] = {};
    uint32_t previous = 0;
    barrier_wait(layout.tile_full + tile_at.stage * 8, tile_at.parity);
    barrier_wait(layout.statistics_full + tile_at.stage * 8, tile_at.parity);
    const float *statistics = layout.statistics + tile_at.stage * statistics_count;
    const float lse_log2[2] = {statistics[line], statistics[line + 8]};
    const float row_D[2] = {statistics[tile_lines + line], statistics[tile_lines + line + 8]};
    int key = 0, begin = 0, until = 0;  // until: the largest first key of the warpgroup's queries
    Range range[2];                     // the keys that each row attends to
    if constexpr (MASKED) {
      for (int half = 0; half < 2; half++) range[half] = arguments.mask.keys_of(unit.b, row + half * 8, T);
      begin = key = skip_to_own(tiles.last(), consumer, skip);
      until = uniform(tiles.last().of_last[consumer]);
    }
    const int end = min(tile_first + tile_lines, T);
    for (; key < (MASKED ? min(first + 64, T) : end); key += block_lines) {
      const uint32_t shared = layout.ring + at.stage * stage_bytes;
      const Operand k = k_major(shared), v = k_major(shared + block_bytes);
      const Operand k_as_rows = mn_major<block_lines>(shared);
      float score[64], dshare[64];
      barrier_wait(layout.full + at.stage * 8, at.parity);
      hold(score);
      hold(dshare);
      wgmma_fence();
      multiply_channels<64>(score, q, k);
      wgmma_commit();
      multiply_channels<64>(dshare, gradient, v);
      wgmma_commit();
      wgmma_wait<2>();
      if (key > begin && lane == 0) barrier_arrive(layout.empty + previous * 8);
      wgmma_wait<1>();
      hold(score);
      const bool masks = key + block_lines - 1 > first || (MASKED && key < until);
#pragma unroll
      for (int i = 0; i < 64; i++) score[i] = exp2_approximate(fmaf(score[i], scale_log2, -lse_log2[i / 2 % 2]));
      if (masks) {
#pragma unroll
        for (int i = 0; i < 64; i++) {
          const int column = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (MASKED ? range[i / 2 % 2].hides(column) : column > row + i / 2 % 2 * 8) score[i] = 0;
        }
      }
      wgmma_wait<0>();
      hold(dshare);
      hold(result);
#pragma unroll
      for (int i = 0; i < 64; i++) score[i] *= dshare[i] - row_D[i / 2 % 2];
      uint32_t dscore[block_lines / 16][4];
      as_operands(dscore, score);
      hold(dscore);
      wgmma_fence();
      multiply_rows(result, dscore, k_as_rows);
      wgmma_commit();
      previous = at.stage;
      at.advance();
    }
    wgmma_wait<0>();
    hold(result);
    __syncwarp();
    if constexpr (MASKED) {
      if (key > begin && lane == 0) barrier_arrive(layout.empty + previous * 8);
      for (; key < end; key += block_lines) skip();
    }
    if (lane == 0) {
      if constexpr (!MASKED) barrier_arrive(layout.empty + previous * 8);
      barrier_arrive(layout.tile_empty + tile_at.stage * 8);
      wait_stores_read<0>();
    }
    __syncwarp();
    tile_at.advance();
    store_lines(dqkv_map, unit.head, first + warp * 16, unit.b, warp_staging, result, scales);
    if (lane == 0) commit_stores();
  }
  if (lane == 0) wait_stores_read<0>();
}

}  // namespace gpt2::sm90::backward
