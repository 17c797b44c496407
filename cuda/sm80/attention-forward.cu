// Attention forward for bf16 on tensor cores, sm_80 and later; attention.cuh has the idea and the tiles.
#include <algorithm>

#include "../common/tensor-cores.h"
#include "attention.cuh"

namespace gpt2 {

namespace {

using namespace sm80;

template <int HS, bool MASKED>
__global__ void __launch_bounds__(threads)
    forward_kernel(bf16 *out, float *lse, const bf16 *qkv, AttentionSizes sizes, float scale) {
  using S = Shape<HS>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto *q_memory = reinterpret_cast<bf16 *>(memory);
  const uint32_t q_shared = shared_address(memory);
  const uint32_t kv_shared = q_shared + S::lines * S::line_bytes;
  constexpr int buffer_bytes = 2 * S::keys * S::line_bytes;  // k, then v
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Blocks with the last queries, which attend to the most keys, go first.
  const HeadBlock unit(sizes, S::lines);
  const int first = (unit.blocks - 1 - unit.block) * S::lines;
  const bf16 *q = qkv + sizes.qkv_at(unit.b, unit.head);
  const bf16 *k = q + sizes.C, *v = k + sizes.C;
  const int T = sizes.T;
  const int blocks = (min(first + S::lines, T) + S::keys - 1) / S::keys;
  const int first_block = MASKED ? sizes.mask.first_key(unit.b, first, T) / S::keys : 0;

  const auto copy_block = [&](int block) {
    const uint32_t buffer = kv_shared + block % 2 * buffer_bytes;
    copy_lines<HS, S::keys>(buffer, k, sizes.stride(), block * S::keys, T);
    copy_lines<HS, S::keys>(buffer + buffer_bytes / 2, v, sizes.stride(), block * S::keys, T);
  };
  copy_lines<HS, S::lines>(q_shared, q, sizes.stride(), first, T);
  copy_block(first_block);
  commit_copies();

  const float scale_log2 = scale * log2e;
  const int warp_line = warp * 16 * S::groups;
  uint32_t query[S::steps][S::groups][4];
  float result[S::groups][HS / 8][4] = {};
  float maximum[S::groups][2], sum[S::groups][2];
#pragma unroll
  for (int g = 0; g < S::groups; g++) {
    maximum[g][0] = maximum[g][1] = -INFINITY;
    sum[g][0] = sum[g][1] = 0;
  }
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
        for (int step = 0; step < S::steps; step++) load_a<HS>(query[step][g], q_shared, warp_line + g * 16, step * 16);
      }
    }
    const int key0 = block * S::keys;
    const uint32_t k_shared = kv_shared + block % 2 * buffer_bytes, v_shared = k_shared + buffer_bytes / 2;
    if (key0 <= first + warp_line + 16 * S::groups - 1) {
      float score[S::groups][S::keys / 8][4] = {};
#pragma unroll
      for (int step = 0; step < S::steps; step++) {
#pragma unroll
        for (int j = 0; j < S::keys / 16; j++) {
          uint32_t fragment[4];
          load_b<HS>(fragment, k_shared, j * 16, step * 16);
          multiply_groups(score, query[step], fragment, j);
        }
      }
      const bool masks =
          key0 + S::keys - 1 > first + warp_line || (MASKED && key0 < range[S::groups - 1][1].begin);
#pragma unroll
      for (int g = 0; g < S::groups; g++) {
        const int row = first + warp_line + g * 16 + lane / 4;
        if (masks) {
#pragma unroll
          for (int j = 0; j < S::keys / 8; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
              const int column = key0 + j * 8 + lane % 4 * 2 + i % 2;
              if (MASKED ? range[g][i / 2].hides(column) : column > row + i / 2 * 8) score[g][j][i] = -INFINITY;
            }
          }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float top = maximum[g][half];
#pragma unroll
          for (int j = 0; j < S::keys / 8; j++) {
            top = fmaxf(top, fmaxf(score[g][j][half * 2], score[g][j][half * 2 + 1]));
          }
          top = quad_max(top);
          // If all keys so far were masked, `top` is -inf; base 0 then makes every exponential 0 instead of NaN.
          const float base = top == -INFINITY ? 0.0f : top * scale_log2;
          const float shrink = exp2_approximate(maximum[g][half] * scale_log2 - base);
          maximum[g][half] = top;
          float total = 0;
#pragma unroll
          for (int j = 0; j < S::keys / 8; j++) {
#pragma unroll
            for (int i = half * 2; i < half * 2 + 2; i++) {
              score[g][j][i] = exp2_approximate(fmaf(score[g][j][i], scale_log2, -base));
              total += score[g][j][i];
            }
          }
          sum[g][half] = sum[g][half] * shrink + total;
#pragma unroll
          for (int j = 0; j < HS / 8; j++) {
            result[g][j][half * 2] *= shrink;
            result[g][j][half * 2 + 1] *= shrink;
          }
        }
      }
#pragma unroll
      for (int step = 0; step < S::keys / 16; step++) {
        uint32_t share[S::groups][4];
#pragma unroll
        for (int g = 0; g < S::groups; g++) as_operand(share[g], score[g][step * 2], score[g][step * 2 + 1]);
        multiply_lines<HS>(result, share, v_shared, step * 16);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int g = 0; g < S::groups; g++) {
    const int line = first + warp_line + g * 16;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float total = quad_sum(sum[g][half]);
      const int row = line + lane / 4 + half * 8;
      if (lane % 4 == 0 && row < T) {
        lse[unit.statistics + row] = maximum[g][half] * scale + logf(total);
      }
      const float share = 1.0f / total;
#pragma unroll
      for (int j = 0; j < HS / 8; j++) {
        result[g][j][half * 2] *= share;
        result[g][j][half * 2 + 1] *= share;
      }
    }
    store_lines<HS>(out + sizes.out_at(unit.b, unit.head), sizes.C, line, T, q_shared,
                    q_memory + (warp_line + g * 16) * S::stride, result[g]);
  }
}

}  // namespace

bool sm80::takes_head_size(const CudaContext &context, int HS) {
  int needed = 0;
  const bool is_made = with_head_size(
      HS, [&](auto size) { needed = std::max(forward_shared_bytes<size>, backward_shared_bytes<size>); });
  return is_made && needed <= context.shared_limit;
}

void sm80::attention_forward(const CudaContext &context, bf16 *out, float *lse, const bf16 *qkv,
                             const AttentionSizes &sizes) {
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  with_head_size(sizes.HS, [&](auto HS) {
    constexpr int shared = forward_shared_bytes<HS>;
    auto *kernel = sizes.mask.first ? forward_kernel<HS, true> : forward_kernel<HS, false>;
    allow_shared(kernel, shared);
    const auto grid = static_cast<unsigned>(ceil_divide(sizes.T, Shape<HS>::lines) * sizes.B * sizes.NH);
    kernel<<<grid, threads, shared, context.stream>>>(out, lse, qkv, sizes, scale);
  });
}

}  // namespace gpt2
