// Attention backward on Hopper, head size 128: the kernel that owns queries computes dq and the statistics lse and D.
//
// Two stages of k and two of v take 128 KB of shared memory, which leaves room for three strips (64 lines of q and of
// dout). A tile has two strips, one for each warpgroup. The third buffer takes the next tile's first strip while both
// strips of the current tile are in use. Blocks of keys go from the diagonal down to key 0.
#pragma once

#include "attention-backward.cuh"

namespace gpt2::sm90::backward_128 {

constexpr int key_bytes = 2 * block_bytes;  // a block of k or v
constexpr int queries_stages = 2;
constexpr int queries_strips = 3;
constexpr int queries_shared_bytes = 2 * queries_stages * key_bytes + queries_strips * strip_pair_bytes + 2048;

template <bool MASKED>
__global__ void __launch_bounds__(threads, 1)
    queries_kernel(const __grid_constant__ CUtensorMap keys_map, const __grid_constant__ CUtensorMap queries_map,
                   const __grid_constant__ CUtensorMap dout_map, const __grid_constant__ CUtensorMap dqkv_map,
                   const bf16 *dout, const bf16 *out, float *all_statistics, const float *lse,
                   const AttentionArguments arguments, float scale) {
  extern __shared__ unsigned char memory[];
  constexpr int stages = queries_stages, strips = queries_strips, ahead = 2;
  const uint32_t k_ring = (shared_address(memory) + 1023) & ~1023u, v_ring = k_ring + stages * key_bytes;
  const uint32_t strip_ring = v_ring + stages * key_bytes;
  const uint32_t k_full = strip_ring + strips * strip_pair_bytes, k_empty = k_full + stages * 8;
  const uint32_t v_full = k_empty + stages * 8, v_empty = v_full + stages * 8;
  const uint32_t strip_full = v_empty + stages * 8, strip_empty = strip_full + strips * 8;
  const uint32_t statistics_full = strip_empty + strips * 8, statistics_empty = statistics_full + ahead * 8;
  Announcements tiles(memory, statistics_empty + ahead * 8);  // only with a mask
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  const auto init = [&] {
    for (int i = 0; i < stages; i++) {
      barrier_init(k_full + i * 8, 1);
      barrier_init(k_empty + i * 8, consumers * 4);
      barrier_init(v_full + i * 8, 1);
      barrier_init(v_empty + i * 8, consumers * 4);
    }
    init_ring<strips>(strip_full, strip_empty, 4);
    for (int i = 0; i < ahead; i++) {
      barrier_init(statistics_full + i * 8, 3 * 32);
      barrier_init(statistics_empty + i * 8, consumers * 128);
    }
  };
  begin_kernel<MASKED>(tiles, init, keys_map, queries_map, dout_map, dqkv_map);

  const int T = arguments.T, NH = arguments.NH;
  // Tile 0 is at the end of the sequence, where queries attend to the most keys.
  const auto first_of = [&](const HeadTile &unit) { return (arguments.tiles - 1 - unit.tile) * tile_lines; };
  HeadTile unit;
  RingPosition<stages> at;
  RingPosition<strips> strip_at;
  if (warpgroup == 0) {
    decrease_registers<56>();
    if (warp == 0) {
      if (lane != 0) return;
      const auto load_tile = [&](const Ticket &ticket, auto announce) {
        const int first = first_of(unit);
        const auto load_strip = [&](int query) {
          const uint32_t strip = strip_ring + strip_at.stage * strip_pair_bytes,
                         barrier = strip_full + strip_at.stage * 8;
          barrier_wait(strip_empty + strip_at.stage * 8, strip_at.parity ^ 1);
          barrier_expect(barrier, strip_pair_bytes);
          load_box(strip, queries_map, 0, query, unit.head * 2, unit.b, barrier);
          load_box(strip + strip_bytes, dout_map, 0, query, unit.head * 2, unit.b, barrier);
          strip_at.advance();
        };
        const int begin = MASKED ? ticket.of_first[0] : 0;
        load_strip(first);
        announce();
        for (int key = first; MASKED ? key > begin - block_lines : key >= 0; key -= block_lines) {
          barrier_wait(k_empty + at.stage * 8, at.parity ^ 1);
          barrier_expect(k_full + at.stage * 8, key_bytes);
          load_box(k_ring + at.stage * key_bytes, keys_map, 0, key, (NH + unit.head) * 2, unit.b,
                   k_full + at.stage * 8);
          barrier_wait(v_empty + at.stage * 8, at.parity ^ 1);
          barrier_expect(v_full + at.stage * 8, key_bytes);
          load_box(v_ring + at.stage * key_bytes, keys_map, 0, key, (2 * NH + unit.head) * 2, unit.b,
                   v_full + at.stage * 8);
          at.advance();
          // The second strip is loaded after the first k and v, because its load waits until a warpgroup has finished
          // the previous tile, and that warpgroup needs k and v next.
          if (key == first) load_strip(first + strip_lines);
        }
      };
      produce<MASKED, consumers, false>(arguments, unit, tiles, first_of, load_tile);
      return;
    }
    // Warps 1 to 3 compute D = row sums of dout * out, up to two tiles ahead of the consumers. They read global memory,
    // because shared memory has no room for `out`. Four lanes take a row. These loads limit the kernel: at d12's size
    // on an H200 the kernel takes 0.36 to 0.38 ms, 0.30 without the loads, 0.40 to 0.41 without the prefetch to L2.
    RingPosition<ahead> statistics_at;
    for (int index = 0; tiles.take<MASKED>(arguments, index, unit); index++) {
      const int first = first_of(unit);
#pragma unroll 1
      for (int i = threadIdx.x - 32; i < tile_lines * 2; i += 96) {
        const int64_t row = static_cast<int64_t>(unit.b) * T + min(first + i / 2, T - 1);
        const int64_t half_row = (row * NH + unit.head) * 128 + i % 2 * 64;
        prefetch_to_l2(dout + half_row);
        prefetch_to_l2(out + half_row);
      }
      barrier_wait(statistics_empty + statistics_at.stage * 8, statistics_at.parity ^ 1);
#pragma unroll 1
      for (int line = first + (warp - 1) * 8 + lane / 4; line < first + tile_lines; line += 3 * 8) {
        // Queries past the end read row T - 1 instead, without effect: their probabilities are 0.
        const int64_t row = static_cast<int64_t>(unit.b) * T + min(line, T - 1);
        const int64_t at_row = (row * NH + unit.head) * 128 + lane % 4 * 8;
        const auto *x = reinterpret_cast<const uint4 *>(dout + at_row);
        const auto *y = reinterpret_cast<const uint4 *>(out + at_row);
        uint4 a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
          a[i] = x[i * 4];
          b[i] = y[i * 4];
        }
        float total = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) total += dot_chunks(a[i], b[i]);
        total = quad_sum(total);
        if (lane % 4 == 0) {
          float *kept =
              statistics_of<statistics_lines>(all_statistics, arguments, unit, line) + line % statistics_lines;
          kept[0] = line < T ? lse[unit.statistics + line] * log2e : INFINITY;
          kept[statistics_lines] = total;
        }
      }
      barrier_arrive(statistics_full + statistics_at.stage * 8);
      statistics_at.advance();
    }
    return;
  }

  increase_registers<224>();
  const int consumer = warpgroup - 1;
  const float scale_log2 = scale * log2e, scales[2] = {scale, scale};
  RingPosition<ahead> statistics_at;
  if (consumer == 1) strip_at.advance();
  for (int index = 0; tiles.take<MASKED>(arguments, index, unit); index++) {
    const int tile_first = first_of(unit), first = tile_first + consumer * strip_lines;
    const int row = first + warp * 16 + lane / 4;  // the thread's rows are row and row + 8
    const uint32_t strip = uniform(strip_ring + strip_at.stage * strip_pair_bytes);
    const Operand q = k_major(strip), gradient = k_major(strip + strip_bytes);
    Range range[2];  // the keys that each row attends to
    if constexpr (MASKED) {
      for (int half = 0; half < 2; half++) range[half] = arguments.mask.keys_of(unit.b, row + half * 8, T);
    }
    float result[64] = {};
    uint32_t previous = 0;
    barrier_wait(statistics_full + statistics_at.stage * 8, statistics_at.parity);
    const float *statistics = statistics_of<statistics_lines>(all_statistics, arguments, unit, first) + (row - first);
    const float lse_log2[2] = {statistics[0], statistics[8]};
    const float row_D[2] = {statistics[statistics_lines], statistics[statistics_lines + 8]};
    barrier_arrive(statistics_empty + statistics_at.stage * 8);
    statistics_at.advance();
    barrier_wait(strip_full + strip_at.stage * 8, strip_at.parity);
    int key = tile_first;
    const int before = MASKED ? uniform(tiles.last().of_first[consumer]) - block_lines : 0;
    const int until = MASKED ? uniform(tiles.last().of_last[consumer]) : 0;
    for (; MASKED ? key > before : key >= 0; key -= block_lines) {
      const uint32_t k_shared = uniform(k_ring + at.stage * key_bytes);
      const Operand k = k_major(k_shared), v = k_major(uniform(v_ring + at.stage * key_bytes));
      const Operand k_as_rows = mn_major<block_lines>(k_shared);
      float score[block_lines / 2], dshare[block_lines / 2];
      barrier_wait(k_full + at.stage * 8, at.parity);
      hold(score);
      wgmma_fence();
      multiply_channels<128, strip_lines>(score, q, k);
      wgmma_commit();
      // dshare takes the registers of an operand of the previous block's matmul with k, so that matmul must end first.
      wgmma_wait<1>();
      if (key < tile_first && lane == 0) barrier_arrive(k_empty + previous * 8);
      barrier_wait(v_full + at.stage * 8, at.parity);
      hold(dshare);
      wgmma_fence();
      multiply_channels<128, strip_lines>(dshare, gradient, v);
      wgmma_commit();
      wgmma_wait<1>();
      hold(score);
#pragma unroll
      for (int i = 0; i < block_lines / 2; i++) {
        score[i] = exp2_approximate(fmaf(score[i], scale_log2, -lse_log2[i / 2 % 2]));
      }
      if (key == tile_first || (MASKED && key < until)) {
#pragma unroll
        for (int i = 0; i < block_lines / 2; i++) {
          const int column = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (MASKED ? range[i / 2 % 2].hides(column) : column > row + i / 2 % 2 * 8) score[i] = 0;
        }
      }
      wgmma_wait<0>();
      hold(dshare);
      hold(result);
      if (lane == 0) barrier_arrive(v_empty + at.stage * 8);
#pragma unroll
      for (int i = 0; i < block_lines / 2; i++) score[i] *= dshare[i] - row_D[i / 2 % 2];
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
    if (lane == 0) barrier_arrive(k_empty + previous * 8);
    if constexpr (MASKED) {
      // Releases, unread, the blocks of keys with positions below this warpgroup's first key.
      const int all = uniform(tiles.last().of_first[0]);
      for (; key > all - block_lines; key -= block_lines) {
        barrier_wait(k_full + at.stage * 8, at.parity);
        barrier_wait(v_full + at.stage * 8, at.parity);
        if (lane == 0) {
          barrier_arrive(k_empty + at.stage * 8);
          barrier_arrive(v_empty + at.stage * 8);
        }
        at.advance();
      }
    }
    // The results replace the queries in shared memory, so all four warps must first have read the queries.
    warpgroup_sync(warpgroup);
    store_lines(dqkv_map, unit.head, first + warp * 16, unit.b, strip + warp * staging_bytes, result, scales);
    if (lane == 0) {
      commit_stores();
      wait_stores_read<0>();
      barrier_arrive(strip_empty + strip_at.stage * 8);
    }
    strip_at.advance();
    strip_at.advance();
  }
}

}  // namespace gpt2::sm90::backward_128
