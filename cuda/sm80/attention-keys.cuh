// Attention backward, sm_80 and later: the kernel whose blocks compute dk and dv of keys. All tiles (S, P, dS) are
// transposed: lines are keys, columns are queries.
#pragma once

#include "attention.cuh"

namespace gpt2::sm80::backward {

template <int HS, bool MASKED>
__global__ void __launch_bounds__(threads) keys_kernel(bf16 *dqkv, const float *D, const bf16 *dout, const bf16 *qkv,
                                                       const float *lse, AttentionSizes sizes, float scale) {
  using S = Shape<HS>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto *k_memory = reinterpret_cast<bf16 *>(memory);
  const uint32_t k_shared = shared_address(memory);
  const uint32_t v_shared = k_shared + S::lines * S::line_bytes;
  const uint32_t other_shared = v_shared + S::lines * S::line_bytes;
  constexpr int buffer_bytes = 2 * S::others * S::line_bytes;  // q, then dout
  __shared__ float lse_log2[2][S::others], other_D[2][S::others];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Blocks with the first keys, which the most queries attend to, go first.
  const HeadBlock unit(sizes, S::lines);
  const int first = unit.block * S::lines;
  const bf16 *q = qkv + sizes.qkv_at(unit.b, unit.head);
  const bf16 *k = q + sizes.C, *v = k + sizes.C;
  const bf16 *gradient = dout + sizes.out_at(unit.b, unit.head);
  const int T = sizes.T;
  const int end = MASKED ? sizes.mask.last_query(unit.b, first + S::lines - 1, T) + 1 : T;
  const int first_block = first / S::others, blocks = (end + S::others - 1) / S::others;
  const float *lse_line = lse + unit.statistics;
  const float *D_line = D + unit.statistics;

  const auto copy_block = [&](int block) {
    const uint32_t buffer = other_shared + block % 2 * buffer_bytes;
    copy_lines<HS, S::others>(buffer, q, sizes.stride(), block * S::others, T);
    copy_lines<HS, S::others>(buffer + buffer_bytes / 2, gradient, sizes.C, block * S::others, T);
    if (threadIdx.x < S::others) {
      const int row = block * S::others + threadIdx.x;
      lse_log2[block % 2][threadIdx.x] = row < T ? lse_line[row] * log2e : INFINITY;
      other_D[block % 2][threadIdx.x] = row < T ? D_line[row] : 0.0f;
    }
  };
  copy_lines<HS, S::lines>(k_shared, k, sizes.stride(), first, T);
  copy_lines<HS, S::lines>(v_shared, v, sizes.stride(), first, T);
  copy_block(first_block);
  commit_copies();

  const float scale_log2 = scale * log2e;
  const int warp_line = warp * 16 * S::groups;
  float dkey[S::groups][HS / 8][4] = {}, dvalue[S::groups][HS / 8][4] = {};
  // The last query that attends to all keys of this warp.
  const int all = MASKED ? sizes.mask.last_query(unit.b, first + warp_line, T) : T;
  for (int block = first_block; block < blocks; block++) {
    if (block + 1 < blocks) copy_block(block + 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    const int query0 = block * S::others;
    const uint32_t q_shared = other_shared + block % 2 * buffer_bytes, dout_shared = q_shared + buffer_bytes / 2;
    if (query0 + S::others - 1 >= first + warp_line) {
      float share[S::groups][S::others / 8][4] = {}, dscore[S::groups][S::others / 8][4] = {};
#pragma unroll
      for (int step = 0; step < S::steps; step++) {
        uint32_t key[S::groups][4], value[S::groups][4];
#pragma unroll
        for (int g = 0; g < S::groups; g++) {
          load_a<HS>(key[g], k_shared, warp_line + g * 16, step * 16);
          load_a<HS>(value[g], v_shared, warp_line + g * 16, step * 16);
        }
#pragma unroll
        for (int j = 0; j < S::others / 16; j++) {
          uint32_t fragment[4];
          load_b<HS>(fragment, q_shared, j * 16, step * 16);
          multiply_groups(share, key, fragment, j);
          load_b<HS>(fragment, dout_shared, j * 16, step * 16);
          multiply_groups(dscore, value, fragment, j);
        }
      }
      const bool masks = query0 < first + warp_line + 16 * S::groups || (MASKED && query0 + S::others - 1 > all);
#pragma unroll
      for (int j = 0; j < S::others / 8; j++) {
        const int column = j * 8 + lane % 4 * 2;
        const float2 other_lse = *reinterpret_cast<const float2 *>(&lse_log2[block % 2][column]);
        const float2 sum = *reinterpret_cast<const float2 *>(&other_D[block % 2][column]);
#pragma unroll
        for (int g = 0; g < S::groups; g++) {
          const int line = first + warp_line + g * 16 + lane / 4;
          [[maybe_unused]] Range range[2];  // the queries that attend to each key; not kept, to save registers
          if (MASKED && masks) {
            for (int half = 0; half < 2; half++) range[half] = sizes.mask.queries_of(unit.b, line + half * 8, T);
          }
#pragma unroll
          for (int i = 0; i < 4; i++) {
            float p = exp2_approximate(fmaf(share[g][j][i], scale_log2, -(i % 2 ? other_lse.y : other_lse.x)));
            const int query = query0 + column + i % 2;
            if (masks && (MASKED ? range[i / 2].hides(query) : line + i / 2 * 8 > query)) p = 0;
            share[g][j][i] = p;
            dscore[g][j][i] = p * (dscore[g][j][i] - (i % 2 ? sum.y : sum.x));
          }
        }
      }
#pragma unroll
      for (int step = 0; step < S::others / 16; step++) {
        uint32_t a[S::groups][4], da[S::groups][4];
#pragma unroll
        for (int g = 0; g < S::groups; g++) {
          as_operand(a[g], share[g][step * 2], share[g][step * 2 + 1]);
          as_operand(da[g], dscore[g][step * 2], dscore[g][step * 2 + 1]);
        }
#pragma unroll
        for (int j = 0; j < HS / 16; j++) {
          uint32_t fragment[4];
          load_b_transposed<HS>(fragment, dout_shared, step * 16, j * 16);
          multiply_groups(dvalue, a, fragment, j);
          load_b_transposed<HS>(fragment, q_shared, step * 16, j * 16);
          multiply_groups(dkey, da, fragment, j);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int g = 0; g < S::groups; g++) {
#pragma unroll
    for (int j = 0; j < HS / 8; j++) {
#pragma unroll
      for (int i = 0; i < 4; i++) dkey[g][j][i] *= scale;
    }
    const int line = first + warp_line + g * 16;
    bf16 *lines = k_memory + (warp_line + g * 16) * S::stride;
    bf16 *dk = dqkv + sizes.qkv_at(unit.b, unit.head) + sizes.C;
    store_lines<HS>(dk, sizes.stride(), line, T, k_shared, lines, dkey[g]);
    store_lines<HS>(dk + sizes.C, sizes.stride(), line, T, k_shared, lines, dvalue[g]);
  }
}

}  // namespace gpt2::sm80::backward
