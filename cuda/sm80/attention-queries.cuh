// Attention backward, sm_80 and later: the kernel whose blocks compute D (row sums of dout * out) and dq of queries.
#pragma once

#include "attention.cuh"

namespace gpt2::sm80::backward {

template <int HS, bool MASKED>
__global__ void __launch_bounds__(threads)
    queries_kernel(bf16 *dqkv, float *D, const bf16 *dout, const bf16 *out, const bf16 *qkv, const float *lse,
                   AttentionSizes sizes, float scale) {
  using S = Shape<HS>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto *q_memory = reinterpret_cast<bf16 *>(memory);
  const uint32_t q_shared = shared_address(memory);
  const uint32_t dout_shared = q_shared + S::lines * S::line_bytes;
  const uint32_t kv_shared = dout_shared + S::lines * S::line_bytes;
  constexpr int buffer_bytes = 2 * S::others * S::line_bytes;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const HeadBlock unit(sizes, S::lines);
  const int first = (unit.blocks - 1 - unit.block) * S::lines;
  const bf16 *q = qkv + sizes.qkv_at(unit.b, unit.head);
  const bf16 *k = q + sizes.C, *v = k + sizes.C;
  const int T = sizes.T;
  const int blocks = (min(first + S::lines, T) + S::others - 1) / S::others;
  const int first_block = MASKED ? sizes.mask.first_key(unit.b, first, T) / S::others : 0;

  const auto copy_block = [&](int block) {
    const uint32_t buffer = kv_shared + block % 2 * buffer_bytes;
    copy_lines<HS, S::others>(buffer, k, sizes.stride(), block * S::others, T);
    copy_lines<HS, S::others>(buffer + buffer_bytes / 2, v, sizes.stride(), block * S::others, T);
  };
  copy_lines<HS, S::lines>(q_shared, q, sizes.stride(), first, T);
  copy_lines<HS, S::lines>(dout_shared, dout + sizes.out_at(unit.b, unit.head), sizes.C, first, T);
  copy_block(first_block);
  commit_copies();

  const float scale_log2 = scale * log2e;
  const int warp_line = warp * 16 * S::groups;
  const float *lse_line = lse + unit.statistics;
  float *D_line = D + unit.statistics;
  float lse_log2[S::groups][2], row_D[S::groups][2];
  // The four lanes that hold a line's fragments compute D of the line.
#pragma unroll
  for (int g = 0; g < S::groups; g++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = first + warp_line + g * 16 + lane / 4 + half * 8;
      float sum = 0;
      if (row < T) {
        const int64_t at = sizes.out_at(unit.b, unit.head) + static_cast<int64_t>(row) * sizes.C;
#pragma unroll
        for (int chunk = 0; chunk < HS / 8; chunk += 4) {
          if (chunk + lane % 4 < HS / 8) {
            float x[8], y[8];
            load(x, dout + at + (chunk + lane % 4) * 8);
            load(y, out + at + (chunk + lane % 4) * 8);
#pragma unroll
            for (int i = 0; i < 8; i++) sum += x[i] * y[i];
          }
        }
      }
      row_D[g][half] = quad_sum(sum);
      lse_log2[g][half] = row < T ? lse_line[row] * log2e : INFINITY;
      if (lane % 4 == 0 && row < T) D_line[row] = row_D[g][half];
    }
  }

  uint32_t query[S::steps][S::groups][4], gradient[S::steps][S::groups][4];
  float result[S::groups][HS / 8][4] = {};
  Range range[S::groups][2];  // the keys that each of the lane's queries attends to
  if constexpr (MASKED) ranges_of_queries<HS>(range, sizes, unit.b, first + warp_line + lane / 4);
  for (int block = first_block; block < blocks; block++) {
    if (block + 1 < blocks) copy_block(block + 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    if (block == first_block) {
#pragma unroll
      for (int g = 0; g < S::groups; g++) {
#pragma unroll
        for (int step = 0; step < S::steps; step++) {
          load_a<HS>(query[step][g], q_shared, warp_line + g * 16, step * 16);
          load_a<HS>(gradient[step][g], dout_shared, warp_line + g * 16, step * 16);
        }
      }
    }
    const int key0 = block * S::others;
    const uint32_t k_shared = kv_shared + block % 2 * buffer_bytes, v_shared = k_shared + buffer_bytes / 2;
    if (key0 <= first + warp_line + 16 * S::groups - 1) {
      float score[S::groups][S::others / 8][4] = {}, dshare[S::groups][S::others / 8][4] = {};
#pragma unroll
      for (int step = 0; step < S::steps; step++) {
#pragma unroll
        for (int j = 0; j < S::others / 16; j++) {
          uint32_t fragment[4];
          load_b<HS>(fragment, k_shared, j * 16, step * 16);
          multiply_groups(score, query[step], fragment, j);
          load_b<HS>(fragment, v_shared, j * 16, step * 16);
          multiply_groups(dshare, gradient[step], fragment, j);
        }
      }
      const bool masks =
          key0 + S::others - 1 > first + warp_line || (MASKED && key0 < range[S::groups - 1][1].begin);
#pragma unroll
      for (int g = 0; g < S::groups; g++) {
        const int row = first + warp_line + g * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < S::others / 8; j++) {
#pragma unroll
          for (int i = 0; i < 4; i++) {
            float share = exp2_approximate(fmaf(score[g][j][i], scale_log2, -lse_log2[g][i / 2]));
            const int column = key0 + j * 8 + lane % 4 * 2 + i % 2;
            if (masks && (MASKED ? range[g][i / 2].hides(column) : column > row + i / 2 * 8)) share = 0;
            score[g][j][i] = share * (dshare[g][j][i] - row_D[g][i / 2]);
          }
        }
      }
#pragma unroll
      for (int step = 0; step < S::others / 16; step++) {
        uint32_t dscore[S::groups][4];
#pragma unroll
        for (int g = 0; g < S::groups; g++) as_operand(dscore[g], score[g][step * 2], score[g][step * 2 + 1]);
        multiply_lines<HS>(result, dscore, k_shared, step * 16);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int g = 0; g < S::groups; g++) {
#pragma unroll
    for (int j = 0; j < HS / 8; j++) {
#pragma unroll
      for (int i = 0; i < 4; i++) result[g][j][i] *= scale;
    }
    store_lines<HS>(dqkv + sizes.qkv_at(unit.b, unit.head), sizes.stride(), first + warp_line + g * 16, T, q_shared,
                    q_memory + (warp_line + g * 16) * S::stride, result[g]);
  }
}

}  // namespace gpt2::sm80::backward
