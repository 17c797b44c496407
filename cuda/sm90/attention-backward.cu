// Attention backward on Hopper, head size 64, in the two kernels of attention.cuh: one owns queries and makes D and dq,
// one owns keys and makes dk and dv. That is seven products where one kernel for all would do with five, but then dq is
// a sum over blocks that other blocks of keys add to: fp32 sums in memory, in an order to be kept. Here probabilities
// and their gradients never leave registers, where they are the next product's operand, and every sum has one owner.
//
// A block has two warpgroups of 64 lines each and takes steps of 128 lines of the other kind: the accumulators of two
// [64,128] products and of the results fill the 240 registers that a thread of them may have.
#include <type_traits>

#include "../common/tensor-cores.h"
#include "attention.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

constexpr int consumers = 2;
constexpr int tile_lines = consumers * 64;
constexpr int threads = (1 + consumers) * 128;
constexpr int stage_bytes = 2 * block_bytes;  // k, v; or q, dout
constexpr int staging_bytes = consumers * 64 * line_bytes;

// What keys need of 128 queries besides: lse in units of log2, then D. The first kernel leaves it in scratch,
// [B,NH,tiles] of it; past the end of a sequence lse is infinity, so that there is no share.
constexpr int statistics_count = 2 * tile_lines;
constexpr int statistics_bytes = statistics_count * static_cast<int>(sizeof(float));
static_assert(tile_lines == block_lines, "a tile of queries is what a step of keys takes");

__device__ __forceinline__ float *statistics_of(float *all, const AttentionArguments &arguments, const HeadTile &unit,
                                                int query) {
  return all + (static_cast<int64_t>(unit.row) * arguments.tiles + query / tile_lines) * statistics_count;
}

// Where things lie in shared memory: a ring of STAGES, twice the block's own TENSORS, staging for results, and
// statistics of each stage, or of each of the own tiles.
template <int STAGES, int TENSORS>
struct Layout {
  static constexpr int own_bytes = TENSORS * tile_lines * line_bytes;
  static constexpr int shared_bytes = STAGES * (stage_bytes + statistics_bytes) + 2 * own_bytes + staging_bytes + 2048;

  uint32_t ring, own, staging, full, empty, own_full, own_empty, statistics_full;
  float *statistics;

  __device__ explicit Layout(unsigned char *memory) {
    const uint32_t begin = shared_address(memory);
    ring = (begin + 1023) & ~1023u;
    own = ring + STAGES * stage_bytes;
    staging = own + 2 * own_bytes;
    const uint32_t statistics_begin = staging + staging_bytes;
    statistics = reinterpret_cast<float *>(memory + (statistics_begin - begin));
    full = statistics_begin + STAGES * statistics_bytes;
    empty = full + STAGES * 8;
    own_full = empty + STAGES * 8;
    own_empty = own_full + 2 * 8;
    statistics_full = own_empty + 2 * 8;
  }
};
using QueriesLayout = Layout<3, 3>;  // own: q, dout, out
using KeysLayout = Layout<4, 2>;     // own: k, v

using Whole = std::integral_constant<int, block_lines>;
using Half = std::integral_constant<int, block_lines / 2>;

// The sum of products of two 16-byte chunks of bf16 in shared memory.
__device__ __forceinline__ float dot_chunks(uint32_t a, uint32_t b) {
  uint32_t x[4], y[4];
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(a));
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]) : "r"(b));
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 p = unpack_bf16(x[i]), q = unpack_bf16(y[i]);
    sum = fmaf(p.x, q.x, fmaf(p.y, q.y, sum));
  }
  return sum;
}

__global__ void __launch_bounds__(threads, 1)
    queries_kernel(const __grid_constant__ CUtensorMap qkv_map, const __grid_constant__ CUtensorMap dout_map,
                   const __grid_constant__ CUtensorMap out_map, const __grid_constant__ CUtensorMap dqkv_map,
                   float *all_statistics, const float *lse, const AttentionArguments arguments, float scale) {
  extern __shared__ unsigned char memory[];
  constexpr int stages = 3, own_bytes = QueriesLayout::own_bytes;
  const QueriesLayout layout(memory);
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; i++) {
      barrier_init(layout.full + i * 8, 1);
      barrier_init(layout.empty + i * 8, consumers * 4);
    }
    for (int i = 0; i < 2; i++) {
      barrier_init(layout.own_full + i * 8, 1);
      barrier_init(layout.own_empty + i * 8, consumers * 4);
      barrier_init(layout.statistics_full + i * 8, 3 * 32);
    }
    fence_barrier_init();
    prefetch_map(qkv_map);
    prefetch_map(dout_map);
    prefetch_map(dqkv_map);
  }
  __syncthreads();
  wait_for_previous_kernel();

  const int T = arguments.T, NH = arguments.NH;
  // The tile with the most keys is the last of the sequence.
  const auto first_of = [&](const HeadTile &unit) { return (arguments.tiles - 1 - unit.tile) * tile_lines; };
  HeadTile unit;
  RingPosition<stages> at;
  RingPosition<2> own_at;
  if (warpgroup == 0) {
    decrease_registers<40>();
    if (warp == 0) {
      if (lane != 0) return;
      for (int index = 0; tile_of(arguments, index, unit); index++) {
        const int first = first_of(unit);
        const uint32_t own = layout.own + own_at.stage * own_bytes, own_barrier = layout.own_full + own_at.stage * 8;
        barrier_wait(layout.own_empty + own_at.stage * 8, own_at.parity ^ 1);
        barrier_expect(own_barrier, own_bytes);
        load_box(own, qkv_map, 0, unit.head, first, unit.b, own_barrier);
        load_box(own + block_bytes, dout_map, 0, unit.head, first, unit.b, own_barrier);
        load_box(own + 2 * block_bytes, out_map, 0, unit.head, first, unit.b, own_barrier);
        own_at.advance();
        for (int key = 0; key < min(first + tile_lines, T); key += block_lines) {
          const uint32_t k = layout.ring + at.stage * stage_bytes, barrier = layout.full + at.stage * 8;
          barrier_wait(layout.empty + at.stage * 8, at.parity ^ 1);
          barrier_expect(barrier, stage_bytes);
          load_box(k, qkv_map, 0, NH + unit.head, key, unit.b, barrier);
          load_box(k + block_bytes, qkv_map, 0, 2 * NH + unit.head, key, unit.b, barrier);
          at.advance();
        }
      }
      return;
    }
    // D = row sums of dout * out, for the tile after the one that the consumers are at. Eight lanes take a row.
    for (int index = 0; tile_of(arguments, index, unit); index++) {
      const int first = first_of(unit);
      float *statistics = layout.statistics + own_at.stage * statistics_count;
      float *kept = statistics_of(all_statistics, arguments, unit, first);
      const uint32_t gradient = layout.own + own_at.stage * own_bytes + block_bytes;
      // Rows of lse come before the wait.
      float own_lse[2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int line = (warp - 1) * 32 + lane + i * 96;
        own_lse[i] = line < tile_lines && first + line < T ? lse[unit.statistics + first + line] * log2e : INFINITY;
      }
      barrier_wait(layout.own_empty + own_at.stage * 8, own_at.parity ^ 1);
      barrier_wait(layout.own_full + own_at.stage * 8, own_at.parity);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int line = (warp - 1) * 32 + lane + i * 96;
        if (line < tile_lines) statistics[line] = kept[line] = own_lse[i];
      }
      for (int line = (warp - 1) * 4 + lane / 8; line < tile_lines; line += 12) {
        const uint32_t at_line = gradient + line * line_bytes + ((lane % 8 ^ (line & 7)) << 4);
        float total = dot_chunks(at_line, at_line + block_bytes);
#pragma unroll
        for (int offset = 4; offset > 0; offset /= 2) total += __shfl_xor_sync(0xffu << (lane & 24), total, offset);
        if (lane % 8 == 0) statistics[tile_lines + line] = kept[tile_lines + line] = total;
      }
      barrier_arrive(layout.statistics_full + own_at.stage * 8);
      own_at.advance();
    }
    return;
  }

  increase_registers<232>();
  const int consumer = warpgroup - 1;
  const uint32_t own_staging = layout.staging + (consumer * 4 + warp) * (16 * line_bytes);
  const float scale_log2 = scale * log2e, scales[2] = {scale, scale};
  for (int index = 0; tile_of(arguments, index, unit); index++) {
    const int tile_first = first_of(unit), first = tile_first + consumer * 64;
    const int line = consumer * 64 + warp * 16 + lane / 4, row = tile_first + line;  // and row + 8
    const uint32_t own = layout.own + own_at.stage * own_bytes + consumer * (64 * line_bytes);
    const Operand q = k_major(own), gradient = k_major(own + block_bytes);
    float result[32] = {};
    uint32_t previous = 0;
    barrier_wait(layout.own_full + own_at.stage * 8, own_at.parity);
    barrier_wait(layout.statistics_full + own_at.stage * 8, own_at.parity);
    const float *statistics = layout.statistics + own_at.stage * statistics_count;
    const float lse_log2[2] = {statistics[line], statistics[line + 8]};
    const float own_D[2] = {statistics[tile_lines + line], statistics[tile_lines + line + 8]};
    for (int key = 0; key < min(tile_first + tile_lines, T); key += block_lines) {
      const uint32_t shared = layout.ring + at.stage * stage_bytes;
      const Operand k = k_major(shared), v = k_major(shared + block_bytes);
      const Operand k_as_rows = mn_major<block_lines>(shared);
      float score[64], dshare[64];
      barrier_wait(layout.full + at.stage * 8, at.parity);
      hold(score);
      hold(dshare);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < head_size / 16; i++) wgmma<0, 0>(score, q.at(i * 32), k.at(i * 32), i > 0);
      wgmma_commit();
#pragma unroll
      for (int i = 0; i < head_size / 16; i++) wgmma<0, 0>(dshare, gradient.at(i * 32), v.at(i * 32), i > 0);
      wgmma_commit();
      wgmma_wait<2>();
      if (key > 0 && lane == 0) barrier_arrive(layout.empty + previous * 8);
      wgmma_wait<1>();
      hold(score);
      const bool masks = key + block_lines - 1 > first;
#pragma unroll
      for (int i = 0; i < 64; i++) score[i] = exp2_approximate(fmaf(score[i], scale_log2, -lse_log2[i / 2 % 2]));
      if (masks) {
#pragma unroll
        for (int i = 0; i < 64; i++) {
          if (key + i / 4 * 8 + lane % 4 * 2 + i % 2 > row + i / 2 % 2 * 8) score[i] = 0;
        }
      }
      wgmma_wait<0>();
      hold(dshare);
      hold(result);
#pragma unroll
      for (int i = 0; i < 64; i++) score[i] *= dshare[i] - own_D[i / 2 % 2];
      uint32_t dscore[block_lines / 16][4];
#pragma unroll
      for (int i = 0; i < block_lines / 16; i++) as_operand(dscore[i], score, i);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < block_lines / 16; i++) wgmma<1>(result, dscore[i], k_as_rows.at(i * 2048), true);
      wgmma_commit();
      previous = at.stage;
      at.advance();
    }
    wgmma_wait<0>();
    hold(result);
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(layout.empty + previous * 8);
      barrier_arrive(layout.own_empty + own_at.stage * 8);
      wait_stores_read<0>();
    }
    __syncwarp();
    own_at.advance();
    store_lines(dqkv_map, unit.head, first + warp * 16, unit.b, own_staging, result, scales);
    if (lane == 0) commit_stores();
  }
  if (lane == 0) wait_stores_read<0>();
}

// Everything is transposed: lines are keys, columns are queries.
__global__ void __launch_bounds__(threads, 1)
    keys_kernel(const __grid_constant__ CUtensorMap qkv_map, const __grid_constant__ CUtensorMap dout_map,
                const __grid_constant__ CUtensorMap dqkv_map, float *all_statistics, const AttentionArguments arguments,
                float scale) {
  extern __shared__ unsigned char memory[];
  constexpr int stages = 4, own_bytes = KeysLayout::own_bytes;
  const KeysLayout layout(memory);
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; i++) {
      barrier_init(layout.full + i * 8, 1);
      barrier_init(layout.empty + i * 8, consumers * 128);
    }
    for (int i = 0; i < 2; i++) {
      barrier_init(layout.own_full + i * 8, 1);
      barrier_init(layout.own_empty + i * 8, consumers * 4);
    }
    fence_barrier_init();
    prefetch_map(qkv_map);
    prefetch_map(dout_map);
    prefetch_map(dqkv_map);
  }
  __syncthreads();
  wait_for_previous_kernel();

  const int T = arguments.T, NH = arguments.NH;
  HeadTile unit;
  RingPosition<stages> at;
  RingPosition<2> own_at;
  if (warpgroup == 0) {
    decrease_registers<40>();
    if (warp == 0 && lane == 0) {
      for (int index = 0; tile_of(arguments, index, unit); index++) {
        const int first = unit.tile * tile_lines;
        const uint32_t own = layout.own + own_at.stage * own_bytes, own_barrier = layout.own_full + own_at.stage * 8;
        barrier_wait(layout.own_empty + own_at.stage * 8, own_at.parity ^ 1);
        barrier_expect(own_barrier, own_bytes);
        load_box(own, qkv_map, 0, NH + unit.head, first, unit.b, own_barrier);
        load_box(own + block_bytes, qkv_map, 0, 2 * NH + unit.head, first, unit.b, own_barrier);
        own_at.advance();
        for (int query = first; query < T; query += block_lines) {
          const uint32_t q = layout.ring + at.stage * stage_bytes, barrier = layout.full + at.stage * 8;
          barrier_wait(layout.empty + at.stage * 8, at.parity ^ 1);
          barrier_expect(barrier, stage_bytes + statistics_bytes);
          load_box(q, qkv_map, 0, unit.head, query, unit.b, barrier);
          load_box(q + block_bytes, dout_map, 0, unit.head, query, unit.b, barrier);
          load_bytes(shared_address(layout.statistics + at.stage * statistics_count),
                     statistics_of(all_statistics, arguments, unit, query), statistics_bytes, barrier);
          at.advance();
        }
      }
    }
    return;
  }

  increase_registers<232>();
  const int consumer = warpgroup - 1;
  const uint32_t own_staging = layout.staging + (consumer * 4 + warp) * (16 * line_bytes);
  const float scale_log2 = scale * log2e;
  for (int index = 0; tile_of(arguments, index, unit); index++) {
    const int tile_first = unit.tile * tile_lines, first = tile_first + consumer * 64;
    const int key = first + warp * 16 + lane / 4;  // and key + 8
    const uint32_t own = layout.own + own_at.stage * own_bytes + consumer * (64 * line_bytes);
    const Operand k = k_major(own), v = k_major(own + block_bytes);
    float dkey[32] = {}, dvalue[32] = {};
    barrier_wait(layout.own_full + own_at.stage * 8, own_at.parity);
    // A block of queries from `query` on, the last QUERIES of it; the first has queries that come before their key.
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
#pragma unroll
      for (int i = 0; i < head_size / 16; i++) wgmma<0, 0>(share, k.at(i * 32), q.at(i * 32), i > 0);
      wgmma_commit();
#pragma unroll
      for (int i = 0; i < head_size / 16; i++) wgmma<0, 0>(dscore, v.at(i * 32), gradient.at(i * 32), i > 0);
      wgmma_commit();
      wgmma_wait<1>();
      hold(share);
#pragma unroll
      for (int j = 0; j < QUERIES / 8; j++) {
        const float2 lse_log2 = *reinterpret_cast<const float2 *>(statistics + j * 8);
#pragma unroll
        for (int i = 0; i < 4; i++) {
          float &p = share[j * 4 + i];
          p = exp2_approximate(fmaf(p, scale_log2, -(i % 2 ? lse_log2.y : lse_log2.x)));
          if constexpr (decltype(masks)::value) {
            if (key + i / 2 * 8 > query + skipped + j * 8 + lane % 4 * 2 + i % 2) p = 0;
          }
        }
      }
      uint32_t share_operand[QUERIES / 16][4];
#pragma unroll
      for (int i = 0; i < QUERIES / 16; i++) as_operand(share_operand[i], share, i);
      wgmma_wait<0>();
      hold(dscore);
#pragma unroll
      for (int j = 0; j < QUERIES / 8; j++) {
        const float2 other_D = *reinterpret_cast<const float2 *>(statistics + block_lines + j * 8);
#pragma unroll
        for (int i = 0; i < 4; i++)
          dscore[j * 4 + i] = share[j * 4 + i] * (dscore[j * 4 + i] - (i % 2 ? other_D.y : other_D.x));
      }
      uint32_t dscore_operand[QUERIES / 16][4];
#pragma unroll
      for (int i = 0; i < QUERIES / 16; i++) as_operand(dscore_operand[i], dscore, i);
      hold(dkey);
      hold(dvalue);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < QUERIES / 16; i++) wgmma<1>(dvalue, share_operand[i], gradient_as_rows.at(i * 2048), true);
#pragma unroll
      for (int i = 0; i < QUERIES / 16; i++) wgmma<1>(dkey, dscore_operand[i], q_as_rows.at(i * 2048), true);
      wgmma_commit();
      wgmma_wait<0>();
      hold(dkey);
      hold(dvalue);
      barrier_arrive(layout.empty + at.stage * 8);
      at.advance();
    };
    // On the diagonal the last 64 keys are seen by no more than the last 64 queries.
    if (consumer == 0) {
      take(Whole{}, std::true_type{}, tile_first);
    } else {
      take(Half{}, std::true_type{}, tile_first);
    }
    for (int query = tile_first + block_lines; query < T; query += block_lines) take(Whole{}, std::false_type{}, query);
    if (lane == 0) {
      barrier_arrive(layout.own_empty + own_at.stage * 8);
      wait_stores_read<0>();
    }
    __syncwarp();
    own_at.advance();
    const float scales[2] = {scale, scale}, ones[2] = {1, 1};
    store_lines(dqkv_map, NH + unit.head, first + warp * 16, unit.b, own_staging, dkey, scales);
    if (lane == 0) {
      commit_stores();
      wait_stores_read<0>();
    }
    __syncwarp();
    store_lines(dqkv_map, 2 * NH + unit.head, first + warp * 16, unit.b, own_staging, dvalue, ones);
    if (lane == 0) commit_stores();
  }
  if (lane == 0) wait_stores_read<0>();
}

}  // namespace

void sm90::attention_backward(const CudaContext &context, bf16 *dqkv, float *scratch, const bf16 *dout, const bf16 *out,
                              const bf16 *qkv, const float *lse, const AttentionSizes &sizes) {
  if (sizes.HS != head_size) return portable::attention_backward(context, dqkv, scratch, dout, out, qkv, lse, sizes);
  const AttentionArguments arguments{sizes.B, sizes.T, sizes.NH, static_cast<int>(ceil_divide(sizes.T, tile_lines))};
  const auto map = [&](const bf16 *tensor, int heads, int64_t stride, int lines) {
    return heads_map(context, tensor, heads, sizes.T, sizes.B, stride, lines);
  };
  const CUtensorMap qkv_map = map(qkv, 3 * sizes.NH, sizes.stride(), block_lines);
  const CUtensorMap dout_map = map(dout, sizes.NH, sizes.C, block_lines);
  const CUtensorMap dqkv_map = map(dqkv, 3 * sizes.NH, sizes.stride(), 16);
  const int64_t units = static_cast<int64_t>(sizes.B) * sizes.NH * arguments.tiles;
  const auto blocks = static_cast<unsigned>(units < context.multiprocessors ? units : context.multiprocessors);
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  const CUtensorMap out_map = map(out, sizes.NH, sizes.C, block_lines);
  cudaFuncSetAttribute(queries_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, QueriesLayout::shared_bytes);
  cudaFuncSetAttribute(keys_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, KeysLayout::shared_bytes);
  launch_overlapping(context, queries_kernel, blocks, threads, QueriesLayout::shared_bytes, qkv_map, dout_map, out_map,
                     dqkv_map, scratch, lse, arguments, scale);
  launch_overlapping(context, keys_kernel, blocks, threads, KeysLayout::shared_bytes, qkv_map, dout_map, dqkv_map,
                     scratch, arguments, scale);
}

}  // namespace gpt2
