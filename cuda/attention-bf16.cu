// Attention of bf16 on tensor cores, sm_80 and later, in the flash form: scores live in registers only (Dao 2023).
//
// A block of 4 warps owns 64 * GROUPS lines (queries, or keys in the backward of keys and values), each warp 16 * GROUPS of
// them, and walks over the other side in blocks that come by cp.async, two buffers deep. A product's result fragments are,
// packed in pairs, the next product's operand a, so P and dS never leave registers. Two groups a warp where registers allow
// (HS up to 64): each fragment read from shared memory then serves 32 lines. One group and twice the warps was 8% slower
// forward and 5% backward on an H100, at HS 64 and T 1024. Lines in shared memory are padded by 16
// bytes: an odd number of 16-byte chunks, so ldmatrix has no bank conflicts at any head size that is a multiple of 16.
#include "common/mma.cuh"
#include "common/tensor-cores.h"

namespace gpt2 {

namespace {

constexpr int threads = 128;

template <int HS>
struct Shape {
  static constexpr int groups = HS <= 64 ? 2 : 1;
  static constexpr int lines = 64 * groups;    // a block's own queries or keys
  static constexpr int keys = 64;              // forward's blocks of keys
  static constexpr int others = groups == 2 ? 32 : 64;  // backward's blocks of the other side
  static constexpr int stride = HS + 8;        // elements of a line in shared memory
  static constexpr int steps = HS / 16;        // of k, in products over a head
  static constexpr int line_bytes = stride * 2;
};

// Copies LINES lines of HS elements; those from `end` on are zeros.
template <int HS, int LINES>
__device__ __forceinline__ void copy_lines(uint32_t shared, const bf16 *source, int64_t stride, int first, int end) {
  constexpr int chunks = HS / 8;
#pragma unroll
  for (int i = threadIdx.x; i < LINES * chunks; i += threads) {
    const int line = i / chunks, chunk = i % chunks;
    const bool valid = first + line < end;
    copy_async(shared + line * Shape<HS>::line_bytes + chunk * 16,
               source + (valid ? first + line : 0) * stride + chunk * 8, valid);
  }
}

// Fragment a: 16 lines by 16 elements from `column` on.
template <int HS>
__device__ __forceinline__ void load_a(uint32_t (&r)[4], uint32_t shared, int line, int column) {
  const int lane = threadIdx.x % 32;
  load_matrices(r, shared + (line + lane % 16) * Shape<HS>::line_bytes + (column + lane / 16 * 8) * 2);
}
// Fragments b of 16 lines as n, by 16 elements as k.
template <int HS>
__device__ __forceinline__ void load_b(uint32_t (&r)[4], uint32_t shared, int line, int column) {
  const int lane = threadIdx.x % 32;
  load_matrices(r, shared + (line + lane % 8 + lane / 16 * 8) * Shape<HS>::line_bytes +
                       (column + lane / 8 % 2 * 8) * 2);
}
// Fragments b of 16 lines as k, by 16 elements as n.
template <int HS>
__device__ __forceinline__ void load_b_transposed(uint32_t (&r)[4], uint32_t shared, int line, int column) {
  const int lane = threadIdx.x % 32;
  load_matrices_transposed(r, shared + (line + lane % 16) * Shape<HS>::line_bytes + (column + lane / 16 * 8) * 2);
}

// Result fragments 2k and 2k+1 as the a of a product over those 16 columns.
__device__ __forceinline__ void as_operand(uint32_t (&a)[4], const float (&even)[4], const float (&odd)[4]) {
  a[0] = pack_bf16(even[0], even[1]);
  a[1] = pack_bf16(even[2], even[3]);
  a[2] = pack_bf16(odd[0], odd[1]);
  a[3] = pack_bf16(odd[2], odd[3]);
}

// Writes a warp's 16 lines of results through its own lines of shared memory, as whole lines.
template <int HS>
__device__ __forceinline__ void store_lines(bf16 *destination, int64_t stride, int first, int end, uint32_t shared,
                                            bf16 *memory, const float (&result)[HS / 8][4]) {
  using S = Shape<HS>;
  const int lane = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < HS / 8; j++) {
    auto *at = memory + lane / 4 * S::stride + j * 8 + lane % 4 * 2;
    *reinterpret_cast<uint32_t *>(at) = pack_bf16(result[j][0], result[j][1]);
    *reinterpret_cast<uint32_t *>(at + 8 * S::stride) = pack_bf16(result[j][2], result[j][3]);
  }
  __syncwarp();
  constexpr int chunks = HS / 8;
#pragma unroll
  for (int i = lane; i < 16 * chunks; i += 32) {
    const int line = i / chunks, chunk = i % chunks;
    if (first + line < end) {
      *reinterpret_cast<uint4 *>(destination + (first + line) * stride + chunk * 8) =
          *reinterpret_cast<const uint4 *>(memory + line * S::stride + chunk * 8);
    }
  }
}

__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}
__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

template <int HS>
__global__ void __launch_bounds__(threads)
    forward_kernel(bf16 *out, float *lse, const bf16 *qkv, AttentionSizes sizes, float scale) {
  using S = Shape<HS>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto *q_memory = reinterpret_cast<bf16 *>(memory);
  const uint32_t q_shared = shared_address(memory);
  const uint32_t kv_shared = q_shared + S::lines * S::line_bytes;
  constexpr int buffer_bytes = 2 * S::keys * S::line_bytes;  // k, then v
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The last queries, which see the most keys, go first.
  const HeadBlock own(sizes, S::lines);
  const int first = (own.blocks - 1 - own.block) * S::lines;
  const bf16 *q = qkv + sizes.qkv_at(own.b, own.head);
  const bf16 *k = q + sizes.C, *v = k + sizes.C;
  const int T = sizes.T;
  const int blocks = (min(first + S::lines, T) + S::keys - 1) / S::keys;

  const auto copy_block = [&](int block) {
    const uint32_t buffer = kv_shared + block % 2 * buffer_bytes;
    copy_lines<HS, S::keys>(buffer, k, sizes.stride(), block * S::keys, T);
    copy_lines<HS, S::keys>(buffer + buffer_bytes / 2, v, sizes.stride(), block * S::keys, T);
  };
  copy_lines<HS, S::lines>(q_shared, q, sizes.stride(), first, T);
  copy_block(0);
  commit_copies();

  const float scale_log2 = scale * log2e;
  const int warp_line = warp * 16 * S::groups;
  uint32_t query[S::groups][S::steps][4];
  float result[S::groups][HS / 8][4] = {};
  float maximum[S::groups][2], sum[S::groups][2];
#pragma unroll
  for (int g = 0; g < S::groups; g++) {
    maximum[g][0] = maximum[g][1] = -INFINITY;
    sum[g][0] = sum[g][1] = 0;
  }

  for (int block = 0; block < blocks; block++) {
    if (block + 1 < blocks) copy_block(block + 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    if (block == 0) {
#pragma unroll
      for (int g = 0; g < S::groups; g++) {
#pragma unroll
        for (int step = 0; step < S::steps; step++) load_a<HS>(query[g][step], q_shared, warp_line + g * 16, step * 16);
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
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(score[g][j * 2], query[g][step], fragment[0], fragment[1]);
            multiply_bf16(score[g][j * 2 + 1], query[g][step], fragment[2], fragment[3]);
          }
        }
      }
      const bool masks = key0 + S::keys - 1 > first + warp_line;
#pragma unroll
      for (int g = 0; g < S::groups; g++) {
        const int row = first + warp_line + g * 16 + lane / 4;
        if (masks) {
#pragma unroll
          for (int j = 0; j < S::keys / 8; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
              if (key0 + j * 8 + lane % 4 * 2 + i % 2 > row + i / 2 * 8) score[g][j][i] = -INFINITY;
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
          // A line may have seen no key of its own yet: then everything is exp(-inf).
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
#pragma unroll
        for (int j = 0; j < HS / 16; j++) {
          uint32_t fragment[4];
          load_b_transposed<HS>(fragment, v_shared, step * 16, j * 16);
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(result[g][j * 2], share[g], fragment[0], fragment[1]);
            multiply_bf16(result[g][j * 2 + 1], share[g], fragment[2], fragment[3]);
          }
        }
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
        lse[own.statistics + row] = maximum[g][half] * scale + logf(total);
      }
      const float share = 1.0f / total;
#pragma unroll
      for (int j = 0; j < HS / 8; j++) {
        result[g][j][half * 2] *= share;
        result[g][j][half * 2 + 1] *= share;
      }
    }
    store_lines<HS>(out + sizes.out_at(own.b, own.head), sizes.C, line, T, q_shared,
                    q_memory + (warp_line + g * 16) * S::stride, result[g]);
  }
}

// D and dq of a block of queries.
template <int HS>
__global__ void __launch_bounds__(threads)
    backward_queries_kernel(bf16 *dqkv, float *D, const bf16 *dout, const bf16 *out, const bf16 *qkv, const float *lse,
                            AttentionSizes sizes, float scale) {
  using S = Shape<HS>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto *q_memory = reinterpret_cast<bf16 *>(memory);
  const uint32_t q_shared = shared_address(memory);
  const uint32_t dout_shared = q_shared + S::lines * S::line_bytes;
  const uint32_t kv_shared = dout_shared + S::lines * S::line_bytes;
  constexpr int buffer_bytes = 2 * S::others * S::line_bytes;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const HeadBlock own(sizes, S::lines);
  const int first = (own.blocks - 1 - own.block) * S::lines;
  const bf16 *q = qkv + sizes.qkv_at(own.b, own.head);
  const bf16 *k = q + sizes.C, *v = k + sizes.C;
  const int T = sizes.T;
  const int blocks = (min(first + S::lines, T) + S::others - 1) / S::others;

  const auto copy_block = [&](int block) {
    const uint32_t buffer = kv_shared + block % 2 * buffer_bytes;
    copy_lines<HS, S::others>(buffer, k, sizes.stride(), block * S::others, T);
    copy_lines<HS, S::others>(buffer + buffer_bytes / 2, v, sizes.stride(), block * S::others, T);
  };
  copy_lines<HS, S::lines>(q_shared, q, sizes.stride(), first, T);
  copy_lines<HS, S::lines>(dout_shared, dout + sizes.out_at(own.b, own.head), sizes.C, first, T);
  copy_block(0);
  commit_copies();

  const float scale_log2 = scale * log2e;
  const int warp_line = warp * 16 * S::groups;
  const float *lse_line = lse + own.statistics;
  float *D_line = D + own.statistics;
  float lse_log2[S::groups][2], own_D[S::groups][2];
  // A quad of lanes takes the line that its fragments hold.
#pragma unroll
  for (int g = 0; g < S::groups; g++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = first + warp_line + g * 16 + lane / 4 + half * 8;
      float sum = 0;
      if (row < T) {
        const int64_t at = sizes.out_at(own.b, own.head) + static_cast<int64_t>(row) * sizes.C;
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
      own_D[g][half] = quad_sum(sum);
      lse_log2[g][half] = row < T ? lse_line[row] * log2e : INFINITY;
      if (lane % 4 == 0 && row < T) D_line[row] = own_D[g][half];
    }
  }

  uint32_t query[S::groups][S::steps][4], gradient[S::groups][S::steps][4];
  float result[S::groups][HS / 8][4] = {};
  for (int block = 0; block < blocks; block++) {
    if (block + 1 < blocks) copy_block(block + 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    if (block == 0) {
#pragma unroll
      for (int g = 0; g < S::groups; g++) {
#pragma unroll
        for (int step = 0; step < S::steps; step++) {
          load_a<HS>(query[g][step], q_shared, warp_line + g * 16, step * 16);
          load_a<HS>(gradient[g][step], dout_shared, warp_line + g * 16, step * 16);
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
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(score[g][j * 2], query[g][step], fragment[0], fragment[1]);
            multiply_bf16(score[g][j * 2 + 1], query[g][step], fragment[2], fragment[3]);
          }
          load_b<HS>(fragment, v_shared, j * 16, step * 16);
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(dshare[g][j * 2], gradient[g][step], fragment[0], fragment[1]);
            multiply_bf16(dshare[g][j * 2 + 1], gradient[g][step], fragment[2], fragment[3]);
          }
        }
      }
      const bool masks = key0 + S::others - 1 > first + warp_line;
#pragma unroll
      for (int g = 0; g < S::groups; g++) {
        const int row = first + warp_line + g * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < S::others / 8; j++) {
#pragma unroll
          for (int i = 0; i < 4; i++) {
            float share = exp2_approximate(fmaf(score[g][j][i], scale_log2, -lse_log2[g][i / 2]));
            if (masks && key0 + j * 8 + lane % 4 * 2 + i % 2 > row + i / 2 * 8) share = 0;
            score[g][j][i] = share * (dshare[g][j][i] - own_D[g][i / 2]);
          }
        }
      }
#pragma unroll
      for (int step = 0; step < S::others / 16; step++) {
        uint32_t dscore[S::groups][4];
#pragma unroll
        for (int g = 0; g < S::groups; g++) as_operand(dscore[g], score[g][step * 2], score[g][step * 2 + 1]);
#pragma unroll
        for (int j = 0; j < HS / 16; j++) {
          uint32_t fragment[4];
          load_b_transposed<HS>(fragment, k_shared, step * 16, j * 16);
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(result[g][j * 2], dscore[g], fragment[0], fragment[1]);
            multiply_bf16(result[g][j * 2 + 1], dscore[g], fragment[2], fragment[3]);
          }
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
      for (int i = 0; i < 4; i++) result[g][j][i] *= scale;
    }
    store_lines<HS>(dqkv + sizes.qkv_at(own.b, own.head), sizes.stride(), first + warp_line + g * 16, T, q_shared,
                    q_memory + (warp_line + g * 16) * S::stride, result[g]);
  }
}

// dk and dv of a block of keys. Everything is transposed: lines are keys, columns are queries.
template <int HS>
__global__ void __launch_bounds__(threads)
    backward_keys_kernel(bf16 *dqkv, const float *D, const bf16 *dout, const bf16 *qkv, const float *lse,
                         AttentionSizes sizes, float scale) {
  using S = Shape<HS>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto *k_memory = reinterpret_cast<bf16 *>(memory);
  const uint32_t k_shared = shared_address(memory);
  const uint32_t v_shared = k_shared + S::lines * S::line_bytes;
  const uint32_t other_shared = v_shared + S::lines * S::line_bytes;
  constexpr int buffer_bytes = 2 * S::others * S::line_bytes;  // q, then dout
  __shared__ float lse_log2[2][S::others], other_D[2][S::others];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The first keys, which the most queries see, go first.
  const HeadBlock own(sizes, S::lines);
  const int first = own.block * S::lines;
  const bf16 *q = qkv + sizes.qkv_at(own.b, own.head);
  const bf16 *k = q + sizes.C, *v = k + sizes.C;
  const bf16 *gradient = dout + sizes.out_at(own.b, own.head);
  const int T = sizes.T;
  const int first_block = first / S::others, blocks = (T + S::others - 1) / S::others;
  const float *lse_line = lse + own.statistics;
  const float *D_line = D + own.statistics;

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
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(share[g][j * 2], key[g], fragment[0], fragment[1]);
            multiply_bf16(share[g][j * 2 + 1], key[g], fragment[2], fragment[3]);
          }
          load_b<HS>(fragment, dout_shared, j * 16, step * 16);
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(dscore[g][j * 2], value[g], fragment[0], fragment[1]);
            multiply_bf16(dscore[g][j * 2 + 1], value[g], fragment[2], fragment[3]);
          }
        }
      }
      const bool masks = query0 < first + warp_line + 16 * S::groups;
#pragma unroll
      for (int j = 0; j < S::others / 8; j++) {
        const int column = j * 8 + lane % 4 * 2;
        const float2 other_lse = *reinterpret_cast<const float2 *>(&lse_log2[block % 2][column]);
        const float2 sum = *reinterpret_cast<const float2 *>(&other_D[block % 2][column]);
#pragma unroll
        for (int g = 0; g < S::groups; g++) {
          const int line = first + warp_line + g * 16 + lane / 4;
#pragma unroll
          for (int i = 0; i < 4; i++) {
            float p = exp2_approximate(fmaf(share[g][j][i], scale_log2, -(i % 2 ? other_lse.y : other_lse.x)));
            if (masks && line + i / 2 * 8 > query0 + column + i % 2) p = 0;
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
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(dvalue[g][j * 2], a[g], fragment[0], fragment[1]);
            multiply_bf16(dvalue[g][j * 2 + 1], a[g], fragment[2], fragment[3]);
          }
          load_b_transposed<HS>(fragment, q_shared, step * 16, j * 16);
#pragma unroll
          for (int g = 0; g < S::groups; g++) {
            multiply_bf16(dkey[g][j * 2], da[g], fragment[0], fragment[1]);
            multiply_bf16(dkey[g][j * 2 + 1], da[g], fragment[2], fragment[3]);
          }
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
    bf16 *dk = dqkv + sizes.qkv_at(own.b, own.head) + sizes.C;
    store_lines<HS>(dk, sizes.stride(), line, T, k_shared, lines, dkey[g]);
    store_lines<HS>(dk + sizes.C, sizes.stride(), line, T, k_shared, lines, dvalue[g]);
  }
}

template <int HS>
constexpr int forward_shared_bytes = (Shape<HS>::lines + 4 * Shape<HS>::keys) * Shape<HS>::line_bytes;
template <int HS>
constexpr int backward_shared_bytes = (2 * Shape<HS>::lines + 4 * Shape<HS>::others) * Shape<HS>::line_bytes;

template <int HS>
void forward(const CudaContext &context, bf16 *out, float *lse, const bf16 *qkv, const AttentionSizes &sizes,
             float scale) {
  using S = Shape<HS>;
  constexpr int shared = forward_shared_bytes<HS>;
  cudaFuncSetAttribute(forward_kernel<HS>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  const auto grid = static_cast<unsigned>(ceil_divide(sizes.T, S::lines) * sizes.B * sizes.NH);
  forward_kernel<HS><<<grid, threads, shared, context.stream>>>(out, lse, qkv, sizes, scale);
}

template <int HS>
void backward(const CudaContext &context, bf16 *dqkv, float *D, const bf16 *dout, const bf16 *out, const bf16 *qkv,
              const float *lse, const AttentionSizes &sizes, float scale) {
  using S = Shape<HS>;
  constexpr int shared = backward_shared_bytes<HS>;
  cudaFuncSetAttribute(backward_queries_kernel<HS>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  cudaFuncSetAttribute(backward_keys_kernel<HS>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  const auto grid = static_cast<unsigned>(ceil_divide(sizes.T, S::lines) * sizes.B * sizes.NH);
  backward_queries_kernel<HS><<<grid, threads, shared, context.stream>>>(dqkv, D, dout, out, qkv, lse, sizes, scale);
  backward_keys_kernel<HS><<<grid, threads, shared, context.stream>>>(dqkv, D, dout, qkv, lse, sizes, scale);
}

// Calls `body` with the head size as a constant; false if no kernel is made for it.
template <class Body>
bool with_head_size(int HS, Body body) {
  switch (HS) {
    case 32: return body(std::integral_constant<int, 32>{}), true;
    case 64: return body(std::integral_constant<int, 64>{}), true;
    case 80: return body(std::integral_constant<int, 80>{}), true;
    case 96: return body(std::integral_constant<int, 96>{}), true;
    case 128: return body(std::integral_constant<int, 128>{}), true;
  }
  return false;
}

}  // namespace

bool portable::takes_head_size(const CudaContext &context, int HS) {
  int needed = 0;
  const bool is_made = with_head_size(HS, [&](auto size) {
    needed = forward_shared_bytes<size> > backward_shared_bytes<size> ? forward_shared_bytes<size> : backward_shared_bytes<size>;
  });
  return is_made && needed <= context.shared_limit;
}

void portable::attention_forward(const CudaContext &context, bf16 *out, float *lse, const bf16 *qkv,
                                 const AttentionSizes &sizes) {
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  with_head_size(sizes.HS, [&](auto HS) { forward<HS>(context, out, lse, qkv, sizes, scale); });
}

void portable::attention_backward(const CudaContext &context, bf16 *dqkv, float *D, const bf16 *dout,
                                  const bf16 *out, const bf16 *qkv, const float *lse, const AttentionSizes &sizes) {
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  with_head_size(sizes.HS, [&](auto HS) { backward<HS>(context, dqkv, D, dout, out, qkv, lse, sizes, scale); });
}

}  // namespace gpt2
