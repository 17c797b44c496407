// Attention backward on Hopper, head size 64, where there are heads enough for every SM: one block takes a whole head.
//
// Keys are the outer loop, 128 at a time, and queries from the diagonal on the inner: two warpgroups of 64 keys each hold dk and
// dv, and S^T and dP^T, from which P^T and dS^T are already operands in registers for dv and dk. For dq, dS goes through shared
// memory, and each warpgroup makes the part of 64 queries. A query's parts come from the same block one after the other,
// keys ascending, so that they are added in that order without atomics between blocks or a pass before and after: fp32
// sums in a scratch of this block's own (256 KB at T = 1024, which stays in L2), stored by the first keys, added to by TMA's
// reduction, and taken up by the last keys, those on the diagonal, which write dq. Five products for a pair of blocks, where
// the two kernels of attention-backward.cu take seven and every exponential twice.
//
// D = row sums of dout * out is made in the first pass over the queries by the producer's idle warps.
#include "attention.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

constexpr int consumers = 2;
constexpr int tile_lines = consumers * 64;
static_assert(tile_lines == block_lines, "keys and queries go in tiles of the same size");
constexpr int threads = (1 + consumers) * 128;
constexpr int stages = 3;                       // of q and dout
constexpr int pair_bytes = 2 * block_bytes;     // k, v; or q, dout
constexpr int region_bytes = 64 * block_lines * 2;  // of dS: 64 queries x 128 keys of bf16; or 64 x 64 of fp32
constexpr int part_floats = 64 * head_size;     // of dq: a warpgroup's

struct Layout {
  static constexpr int statistics_bytes = stages * 2 * block_lines * static_cast<int>(sizeof(float));
  static constexpr int shared_bytes =
      (2 + stages) * pair_bytes + block_bytes + 2 * region_bytes + statistics_bytes + 2048;

  uint32_t kv, ring, out, dscore, kv_full, kv_empty, full, empty, statistics_full, out_full, out_empty;
  float *statistics;  // of each stage: lse in units of log2, D

  __device__ explicit Layout(unsigned char *memory) {
    const uint32_t begin = shared_address(memory);
    kv = (begin + 1023) & ~1023u;
    ring = kv + 2 * pair_bytes;
    out = ring + stages * pair_bytes;
    dscore = out + block_bytes;
    const uint32_t statistics_begin = dscore + 2 * region_bytes;
    statistics = reinterpret_cast<float *>(memory + (statistics_begin - begin));
    kv_full = statistics_begin + statistics_bytes;
    kv_empty = kv_full + 2 * 8;
    full = kv_empty + 2 * 8;
    empty = full + stages * 8;
    statistics_full = empty + stages * 8;
    out_full = statistics_full + stages * 8;
    out_empty = out_full + 8;
  }
};


__global__ void __launch_bounds__(threads, 1)
    heads_kernel(const __grid_constant__ CUtensorMap qkv_map, const __grid_constant__ CUtensorMap dout_map,
                 const __grid_constant__ CUtensorMap out_map, const __grid_constant__ CUtensorMap dqkv_map, float *D,
                 float *dq_sums, const float *lse, const AttentionArguments arguments, float scale) {
  extern __shared__ unsigned char memory[];
  const Layout layout(memory);
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; i++) {
      barrier_init(layout.kv_full + i * 8, 1);
      barrier_init(layout.kv_empty + i * 8, consumers * 4);
    }
    for (int i = 0; i < stages; i++) {
      barrier_init(layout.full + i * 8, 1);
      barrier_init(layout.empty + i * 8, consumers * 4);
      barrier_init(layout.statistics_full + i * 8, 3);
    }
    barrier_init(layout.out_full, 1);
    barrier_init(layout.out_empty, 3);
    fence_barrier_init();
    prefetch_map(qkv_map);
    prefetch_map(dout_map);
    prefetch_map(out_map);
    prefetch_map(dqkv_map);
  }
  __syncthreads();
  wait_for_previous_kernel();

  const int T = arguments.T, NH = arguments.NH, heads = arguments.B * NH, tiles = arguments.tiles;
  RingPosition<2> kv_at;
  RingPosition<stages> at;
  RingPosition<1> out_at;
  if (warpgroup == 0) {
    decrease_registers<40>();
    if (warp == 0) {
      if (lane != 0) return;
      for (int index = blockIdx.x; index < heads; index += gridDim.x) {
        const int b = index / NH, head = index % NH;
        for (int n = 0; n < tiles; n++) {
          const uint32_t k = layout.kv + kv_at.stage * pair_bytes, kv_barrier = layout.kv_full + kv_at.stage * 8;
          barrier_wait(layout.kv_empty + kv_at.stage * 8, kv_at.parity ^ 1);
          barrier_expect(kv_barrier, pair_bytes);
          load_box(k, qkv_map, 0, NH + head, n * tile_lines, b, kv_barrier);
          load_box(k + block_bytes, qkv_map, 0, 2 * NH + head, n * tile_lines, b, kv_barrier);
          kv_at.advance();
          for (int m = n; m < tiles; m++) {
            const uint32_t q = layout.ring + at.stage * pair_bytes, barrier = layout.full + at.stage * 8;
            barrier_wait(layout.empty + at.stage * 8, at.parity ^ 1);
            barrier_expect(barrier, pair_bytes);
            load_box(q, qkv_map, 0, head, m * tile_lines, b, barrier);
            load_box(q + block_bytes, dout_map, 0, head, m * tile_lines, b, barrier);
            at.advance();
            if (n > 0) continue;
            barrier_wait(layout.out_empty, out_at.parity ^ 1);
            barrier_expect(layout.out_full, block_bytes);
            load_box(layout.out, out_map, 0, head, m * tile_lines, b, layout.out_full);
            out_at.advance();
          }
        }
      }
      return;
    }
    // Statistics of each step. D is made in the first pass over the queries, by eight lanes a row.
    for (int index = blockIdx.x; index < heads; index += gridDim.x) {
      const float *head_lse = lse + static_cast<int64_t>(index) * T;
      float *head_D = D + static_cast<int64_t>(index) * T;
      for (int n = 0; n < tiles; n++) {
        for (int m = n; m < tiles; m++) {
          const int first = m * tile_lines;
          float *lse_log2 = layout.statistics + at.stage * 2 * block_lines, *own_D = lse_log2 + block_lines;
          if (n > 0) {
            barrier_wait(layout.empty + at.stage * 8, at.parity ^ 1);
          } else {
            barrier_wait(layout.full + at.stage * 8, at.parity);
            barrier_wait(layout.out_full, out_at.parity);
            const uint32_t gradient = layout.ring + at.stage * pair_bytes + block_bytes;
            for (int line = (warp - 1) * 4 + lane / 8; line < tile_lines; line += 12) {
              const uint32_t offset = line * line_bytes + ((lane % 8 ^ (line & 7)) << 4);
              float total = dot_chunks(gradient + offset, layout.out + offset);
#pragma unroll
              for (int step = 4; step > 0; step /= 2) total += __shfl_xor_sync(0xffu << (lane & 24), total, step);
              if (lane % 8 == 0) {
                own_D[line] = total;
                if (first + line < T) head_D[first + line] = total;
              }
            }
            __syncwarp();
            if (lane == 0) barrier_arrive(layout.out_empty);
            out_at.advance();
          }
          for (int line = (warp - 1) * 32 + lane; line < tile_lines; line += 96) {
            // Queries past the end have no share.
            lse_log2[line] = first + line < T ? head_lse[first + line] * log2e : INFINITY;
            if (n > 0) own_D[line] = first + line < T ? head_D[first + line] : 0.0f;
          }
          __syncwarp();
          if (lane == 0) barrier_arrive(layout.statistics_full + at.stage * 8);
          at.advance();
        }
        // From here on D is read by other lanes than have written it.
        if (n == 0) named_barrier_sync(4, 96);
      }
    }
    return;
  }

  increase_registers<232>();
  const int consumer = warpgroup - 1;
  const float scale_log2 = scale * log2e, scales[2] = {scale, scale}, ones[2] = {1, 1};
  // Of dS this warpgroup's 64 queries; when they are multiplied, the place of its results on their way out.
  const uint32_t region = layout.dscore + consumer * region_bytes;
  const int own_line = consumer * 64 + warp * 16;  // the warp's first line of a tile
  const auto meet_both = [&] { named_barrier_sync(1, 256); };
  const auto meet_own = [&] { named_barrier_sync(2 + consumer, 128); };
  for (int index = blockIdx.x; index < heads; index += gridDim.x) {
    const int b = index / NH, head = index % NH;
    for (int n = 0; n < tiles; n++) {
      const uint32_t kv = layout.kv + kv_at.stage * pair_bytes;
      const uint64_t k = k_major_descriptor(kv + consumer * (64 * line_bytes));
      const uint64_t v = k_major_descriptor(kv + block_bytes + consumer * (64 * line_bytes));
      const uint64_t k_as_rows = mn_major_descriptor(kv, block_lines);
      float dkey[32] = {}, dvalue[32] = {};
      barrier_wait(layout.kv_full + kv_at.stage * 8, kv_at.parity);
      for (int m = n; m < tiles; m++) {
        const uint32_t shared = layout.ring + at.stage * pair_bytes;
        const uint64_t q = k_major_descriptor(shared), gradient = k_major_descriptor(shared + block_bytes);
        const uint64_t q_as_rows = mn_major_descriptor(shared, block_lines);
        const uint64_t gradient_as_rows = mn_major_descriptor(shared + block_bytes, block_lines);
        const float *statistics = layout.statistics + at.stage * 2 * block_lines + lane % 4 * 2;
        // dq's sums so far, in the order of the accumulators: 8 x 4 of each thread.
        float *part = dq_sums + ((static_cast<int64_t>(blockIdx.x) * tiles + m) * consumers + consumer) * part_floats;
        float share[64], dscore[64];
        barrier_wait(layout.full + at.stage * 8, at.parity);
        hold(share);
        hold(dscore);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < head_size / 16; i++) wgmma<0, 0>(share, k + i * 2, q + i * 2, i > 0);
        wgmma_commit();
#pragma unroll
        for (int i = 0; i < head_size / 16; i++) wgmma<0, 0>(dscore, v + i * 2, gradient + i * 2, i > 0);
        wgmma_commit();
        barrier_wait(layout.statistics_full + at.stage * 8, at.parity);
        wgmma_wait<1>();
        hold(share);
#pragma unroll
        for (int j = 0; j < block_lines / 8; j++) {
          const float2 lse_log2 = *reinterpret_cast<const float2 *>(statistics + j * 8);
#pragma unroll
          for (int i = 0; i < 4; i++) {
            float p = exp2_approximate(fmaf(share[j * 4 + i], scale_log2, -(i % 2 ? lse_log2.y : lse_log2.x)));
            if (m == n && own_line + lane / 4 + i / 2 * 8 > j * 8 + lane % 4 * 2 + i % 2) p = 0;
            share[j * 4 + i] = p;
          }
        }
        uint32_t operand[block_lines / 16][4];
#pragma unroll
        for (int i = 0; i < block_lines / 16; i++) as_operand(operand[i], share, i);
        wgmma_wait<0>();
        hold(dscore);
        // With the probabilities as they were rounded for dv: in fp32 they would take 32 registers more than there are.
#pragma unroll
        for (int j = 0; j < block_lines / 8; j++) {
          const float2 other_D = *reinterpret_cast<const float2 *>(statistics + block_lines + j * 8);
#pragma unroll
          for (int i = 0; i < 2; i++) {
            const float2 p = unpack_bf16(operand[j / 2][j % 2 * 2 + i]);
            dscore[j * 4 + i * 2] = p.x * (dscore[j * 4 + i * 2] - other_D.x);
            dscore[j * 4 + i * 2 + 1] = p.y * (dscore[j * 4 + i * 2 + 1] - other_D.y);
          }
        }
        uint32_t dscore_operand[block_lines / 16][4];
#pragma unroll
        for (int i = 0; i < block_lines / 16; i++) as_operand(dscore_operand[i], dscore, i);

        hold(dvalue);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < block_lines / 16; i++) wgmma<1>(dvalue, operand[i], gradient_as_rows + i * 128, true);
        wgmma_commit();
        // What left from dS's place has been read, and dq's last sums are in memory, before it is written again.
        if (thread == 0) wait_stores<0>();
        if (lane == 0) wait_stores_read<0>();
        meet_both();
#pragma unroll
        for (int i = 0; i < block_lines / 16; i++) {
          const int line = own_line + lane % 16, chunk = i % 4 * 2 + lane / 16;
          store_matrices(layout.dscore + i / 4 * region_bytes + line * 128 + ((chunk ^ (line & 7)) << 4), dscore_operand[i]);
        }
        fence_async_proxy();
        meet_both();
        float dquery[32];
        const uint64_t dscore_rows = mn_major_descriptor(region, block_lines);
        hold(dkey);
        hold(dquery);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < block_lines / 16; i++) wgmma<1, 1>(dquery, dscore_rows + i * 128, k_as_rows + i * 128, i > 0);
#pragma unroll
        for (int i = 0; i < block_lines / 16; i++) wgmma<1>(dkey, dscore_operand[i], q_as_rows + i * 128, true);
        wgmma_commit();
        wgmma_wait<0>();
        hold(dkey);
        hold(dvalue);
        hold(dquery);
        if (lane == 0) barrier_arrive(layout.empty + at.stage * 8);
        at.advance();

        // All of the warpgroup are done with its part of dS.
        meet_own();
        if (m == n) {
          if (n > 0) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
              const float4 sums = __ldcg(reinterpret_cast<const float4 *>(part) + i * 128 + thread);
              dquery[i * 4] += sums.x;
              dquery[i * 4 + 1] += sums.y;
              dquery[i * 4 + 2] += sums.z;
              dquery[i * 4 + 3] += sums.w;
            }
          }
          store_lines(dqkv_map, head, m * tile_lines + own_line, b, region + warp * (16 * line_bytes), dquery, scales);
          if (lane == 0) commit_stores();
        } else {
#pragma unroll
          for (int i = 0; i < 8; i++) {
            asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(region + (i * 128 + thread) * 16),
                         "f"(dquery[i * 4]), "f"(dquery[i * 4 + 1]), "f"(dquery[i * 4 + 2]), "f"(dquery[i * 4 + 3])
                         : "memory");
          }
          fence_async_proxy();
          meet_own();
          if (thread == 0) {
            if (n == 0) {
              store_bytes(part, region, part_floats * sizeof(float));
            } else {
              add_floats(part, region, part_floats * sizeof(float));
            }
            commit_stores();
          }
        }
      }
      if (lane == 0) {
        barrier_arrive(layout.kv_empty + kv_at.stage * 8);
        wait_stores_read<0>();
      }
      kv_at.advance();
      meet_own();
      const uint32_t own = region + warp * (16 * line_bytes);
      store_lines(dqkv_map, NH + head, n * tile_lines + own_line, b, own, dkey, scales);
      store_lines(dqkv_map, 2 * NH + head, n * tile_lines + own_line, b, own + 64 * line_bytes, dvalue, ones);
      if (lane == 0) commit_stores();
    }
  }
  if (lane == 0) wait_stores_read<0>();
}

// Rounds of whole heads, in which some SMs may go idle, against less work.
bool worth_it(const CudaContext &context, const AttentionSizes &sizes) {
  const int64_t heads = static_cast<int64_t>(sizes.B) * sizes.NH;
  return 10 * ceil_divide(heads, context.multiprocessors) * context.multiprocessors <= 14 * heads;
}

}  // namespace

int64_t sm90::heads_backward_floats(const CudaContext &context, const AttentionSizes &sizes) {
  if (!worth_it(context, sizes)) return 0;
  const int64_t tiles = ceil_divide(sizes.T, tile_lines);
  return context.multiprocessors * tiles * consumers * part_floats;
}

void sm90::heads_backward(const CudaContext &context, bf16 *dqkv, float *D, float *dq_sums, const bf16 *dout,
                                    const bf16 *out, const bf16 *qkv, const float *lse, const AttentionSizes &sizes) {
  const AttentionArguments arguments{sizes.B, sizes.T, sizes.NH, static_cast<int>(ceil_divide(sizes.T, tile_lines))};
  const auto map = [&](const bf16 *tensor, int heads, int64_t stride, int lines) {
    return heads_map(tensor, heads, sizes.T, sizes.B, stride, lines);
  };
  const int64_t heads = static_cast<int64_t>(sizes.B) * sizes.NH;
  const int64_t blocks = heads < context.multiprocessors ? heads : context.multiprocessors;
  cudaFuncSetAttribute(heads_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Layout::shared_bytes);
  launch_overlapping(context, heads_kernel, blocks, threads, Layout::shared_bytes,
                     map(qkv, 3 * sizes.NH, sizes.stride(), block_lines), map(dout, sizes.NH, sizes.C, block_lines),
                     map(out, sizes.NH, sizes.C, block_lines), map(dqkv, 3 * sizes.NH, sizes.stride(), 16), D, dq_sums, lse,
                     arguments, 1.0f / sqrtf(static_cast<float>(sizes.HS)));
}

}  // namespace gpt2
