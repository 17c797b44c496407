// Attention backward on Hopper, head size 128: the kernel that owns queries and computes D, dq, and the statistics for
// the kernel of keys.
//
// A stage of k is needed for two products, the first and the last of a step, and a stage of v for the one between: two
// buffers of k and one of v are enough.
#pragma once

#include "attention-backward-128.cuh"

namespace gpt2 {
namespace sm90 {
namespace backward_128 {

// The dot product of a 16-byte chunk of bf16 in shared memory and one in registers.
__device__ __forceinline__ float dot_chunks(uint32_t a, const uint4 &b) {
  uint32_t x[4];
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(a));
  const uint32_t y[4] = {b.x, b.y, b.z, b.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 p = unpack_bf16(x[i]), q = unpack_bf16(y[i]);
    sum = fmaf(p.x, q.x, fmaf(p.y, q.y, sum));
  }
  return sum;
}

constexpr int queries_tile_bytes = 2 * block_bytes;  // k or v
constexpr int queries_shared_bytes = 3 * queries_tile_bytes + 2 * own_pair_bytes + 2048;

__global__ void __launch_bounds__(threads, 1)
    queries_kernel(const __grid_constant__ CUtensorMap qkv_map, const __grid_constant__ CUtensorMap own_qkv_map,
                   const __grid_constant__ CUtensorMap dout_map, const __grid_constant__ CUtensorMap dqkv_map,
                   const bf16 *out, float *all_statistics, const float *lse, const AttentionArguments arguments,
                   float scale) {
  extern __shared__ unsigned char memory[];
  const uint32_t k_ring = (shared_address(memory) + 1023) & ~1023u;
  const uint32_t v_shared = k_ring + 2 * queries_tile_bytes;
  const uint32_t all_own = v_shared + queries_tile_bytes;
  const uint32_t k_full = all_own + 2 * own_pair_bytes, k_empty = k_full + 2 * 8;
  const uint32_t v_full = k_empty + 2 * 8, v_empty = v_full + 8;
  const uint32_t own_full = v_empty + 8, own_empty = own_full + 2 * 8, statistics_full = own_empty + 2 * 8;
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  if (threadIdx.x == 0) {
    barrier_init(v_full, 1);
    barrier_init(v_empty, consumers * 4);
    for (int i = 0; i < 2; i++) {
      barrier_init(k_full + i * 8, 1);
      barrier_init(k_empty + i * 8, consumers * 4);
      barrier_init(own_full + i * 8, 1);
      barrier_init(own_empty + i * 8, consumers * 4);
      barrier_init(statistics_full + i * 8, 3 * 32);
    }
    fence_barrier_init();
    prefetch_map(qkv_map);
    prefetch_map(own_qkv_map);
    prefetch_map(dout_map);
    prefetch_map(dqkv_map);
  }
  __syncthreads();
  wait_for_previous_kernel();

  const int T = arguments.T, NH = arguments.NH;
  // The tile with the most keys is the last of the sequence.
  const auto first_of = [&](const HeadTile &unit) { return (arguments.tiles - 1 - unit.tile) * tile_lines; };
  HeadTile unit;
  RingPosition<2> k_at, own_at;
  RingPosition<1> v_at;
  if (warpgroup == 0) {
    decrease_registers<56>();
    if (warp == 0) {
      if (lane != 0) return;
      for (int index = 0; tile_of(arguments, index, unit); index++) {
        const int first = first_of(unit);
        barrier_wait(own_empty + own_at.stage * 8, own_at.parity ^ 1);
        load_own(all_own + own_at.stage * own_pair_bytes, own_qkv_map, unit.head, dout_map, unit.head, first, unit.b,
                 own_full + own_at.stage * 8);
        own_at.advance();
        for (int key = 0; key <= first; key += block_lines) {
          barrier_wait(k_empty + k_at.stage * 8, k_at.parity ^ 1);
          barrier_expect(k_full + k_at.stage * 8, queries_tile_bytes);
          load_box(k_ring + k_at.stage * queries_tile_bytes, qkv_map, 0, key, (NH + unit.head) * 2, unit.b,
                   k_full + k_at.stage * 8);
          k_at.advance();
          barrier_wait(v_empty, v_at.parity ^ 1);
          barrier_expect(v_full, queries_tile_bytes);
          load_box(v_shared, qkv_map, 0, key, (2 * NH + unit.head) * 2, unit.b, v_full);
          v_at.advance();
        }
      }
      return;
    }
    // The other warps compute D = row sums of dout * out, one tile ahead of the consumers. Sixteen lanes take a row, of
    // which out comes from memory: shared memory has no room for it.
    constexpr int rows = 6, batch = 4;
    for (int index = 0; tile_of(arguments, index, unit); index++) {
      const int first = first_of(unit), C = NH * 128, last = min(T - first, tile_lines) - 1;
      const bf16 *own_out = out + (static_cast<int64_t>(unit.b) * T + first) * C + unit.head * 128 + lane % 16 * 8;
      const uint32_t gradient = all_own + own_at.stage * own_pair_bytes + consumers * own_bytes;
      float *kept = statistics_of(all_statistics, arguments, unit, first);
      const auto place = [](int line) { return line / statistics_lines * statistics_count + line % statistics_lines; };
      // The producer has already waited for this barrier; racecheck does not track the order through its copies.
      barrier_wait(own_empty + own_at.stage * 8, own_at.parity ^ 1);
#pragma unroll 1
      for (int line = (warp - 1) * 32 + lane; line < tile_lines; line += 96) {
        kept[place(line)] = first + line < T ? lse[unit.statistics + first + line] * log2e : INFINITY;
      }
      barrier_wait(own_full + own_at.stage * 8, own_at.parity);
#pragma unroll 1
      for (int begin = (warp - 1) * 2 + lane / 16; begin < tile_lines; begin += batch * rows) {
        uint4 chunk[batch];
#pragma unroll
        for (int i = 0; i < batch; i++) {
          const int line = begin + i * rows;
          chunk[i] = *reinterpret_cast<const uint4 *>(own_out + min(line, last) * C);
        }
#pragma unroll
        for (int i = 0; i < batch; i++) {
          const int line = begin + i * rows;
          if (line >= tile_lines) break;
          const uint32_t at_line = gradient + line / own_lines * own_bytes + lane % 16 / 8 * (own_lines * line_bytes) +
                                   line % own_lines * line_bytes;
          float total = dot_chunks(at_line + ((lane % 8 ^ (line & 7)) << 4), chunk[i]);
#pragma unroll
          for (int offset = 8; offset > 0; offset /= 2) total += __shfl_xor_sync(0xffffffffu, total, offset);
          if (lane % 16 == 0) kept[place(line) + statistics_lines] = total;
        }
      }
      barrier_arrive(statistics_full + own_at.stage * 8);
      own_at.advance();
    }
    return;
  }

  increase_registers<224>();
  const int consumer = warpgroup - 1;
  const float scale_log2 = scale * log2e, scales[2] = {scale, scale};
  for (int index = 0; tile_of(arguments, index, unit); index++) {
    const int tile_first = first_of(unit), first = tile_first + consumer * own_lines;
    const int line = warp * 16 + lane / 4;  // and line + 8, of this warpgroup's
    const uint32_t own = uniform(all_own + own_at.stage * own_pair_bytes + consumer * own_bytes);
    const Operand q = k_major(own), gradient = k_major(own + consumers * own_bytes);
    float result[64] = {};
    uint32_t previous = 0;
    barrier_wait(statistics_full + own_at.stage * 8, own_at.parity);
    const float *statistics = statistics_of(all_statistics, arguments, unit, first) + line;
    const float lse_log2[2] = {statistics[0], statistics[8]};
    const float own_D[2] = {statistics[statistics_lines], statistics[statistics_lines + 8]};
    barrier_wait(own_full + own_at.stage * 8, own_at.parity);
    // Takes the first KEYS of the block of keys from `key` on; on the diagonal, some of the last 64 follow their query
    // (masks).
    const auto take = [&](int key) {
      constexpr int KEYS = block_lines;
      const uint32_t shared = uniform(k_ring + k_at.stage * queries_tile_bytes);
      const Operand k = k_major(shared), v = k_major(v_shared), k_as_rows = mn_major<block_lines>(shared);
      float score[KEYS / 2], dshare[KEYS / 2];
      barrier_wait(k_full + k_at.stage * 8, k_at.parity);
      hold(score);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < 128 / 16; i++) {
        wgmma<0, 0>(score, q.at(channels_at<own_lines>(i)), k.at(channels_at<block_lines>(i)), i > 0);
      }
      wgmma_commit();
      // The registers of both products have room for the operand of the last result only until this one is issued.
      wgmma_wait<1>();
      if (key > 0 && lane == 0) barrier_arrive(k_empty + previous * 8);
      barrier_wait(v_full, v_at.parity);
      hold(dshare);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < 128 / 16; i++) {
        wgmma<0, 0>(dshare, gradient.at(channels_at<own_lines>(i)), v.at(channels_at<block_lines>(i)), i > 0);
      }
      wgmma_commit();
      wgmma_wait<1>();
      hold(score);
#pragma unroll
      for (int i = 0; i < KEYS / 2; i++) score[i] = exp2_approximate(fmaf(score[i], scale_log2, -lse_log2[i / 2 % 2]));
      if (key == tile_first) {
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
          if (i / 4 * 8 + lane % 4 * 2 + i % 2 > line + consumer * own_lines + i / 2 % 2 * 8) score[i] = 0;
        }
      }
      wgmma_wait<0>();
      hold(dshare);
      hold(result);
      if (lane == 0) barrier_arrive(v_empty);
      v_at.advance();
#pragma unroll
      for (int i = 0; i < KEYS / 2; i++) score[i] *= dshare[i] - own_D[i / 2 % 2];
      uint32_t dscore[KEYS / 16][4];
#pragma unroll
      for (int i = 0; i < KEYS / 16; i++) as_operand(dscore[i], score, i);
      hold(dscore);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < KEYS / 16; i++) wgmma<1>(result, dscore[i], k_as_rows.at(i * 2048), true);
      wgmma_commit();
      previous = k_at.stage;
      k_at.advance();
    };
    for (int key = 0; key <= tile_first; key += block_lines) take(key);
    wgmma_wait<0>();
    hold(result);
    if (lane == 0) barrier_arrive(k_empty + previous * 8);
    // All four warps have read the queries where the results are staged.
    warpgroup_sync(warpgroup);
    store_lines(dqkv_map, unit.head, first + warp * 16, unit.b, own + warp * staging_bytes, result, scales);
    if (lane == 0) {
      commit_stores();
      wait_stores_read<0>();
      barrier_arrive(own_empty + own_at.stage * 8);
    }
    own_at.advance();
  }
}

}  // namespace backward_128
}  // namespace sm90
}  // namespace gpt2
