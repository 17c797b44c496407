// Attention backward on Hopper, head sizes 64 and 128, by two kernels: one owns queries and computes dq and D (the row
// sums of dout * out), the other owns keys and computes dk and dv. They need seven matmuls. A single kernel would need
// five, but its blocks of keys would all add to dq in memory, in fp32 and in a fixed order. In two kernels,
// probabilities and their gradients stay in registers as operands of the next matmul.
//
// At head size 64, a block has two warpgroups of 64 queries (or keys) each, and reads keys (or queries) in steps of
// 128. The accumulators of two [64,128] matmuls and of the results fill the 232 registers of a thread.
#include "../common/tensor-cores.h"
#include "attention-keys-128.cuh"
#include "attention-keys.cuh"
#include "attention-queries-128.cuh"
#include "attention-queries.cuh"

namespace gpt2 {

void sm90::attention_backward(const CudaContext &context, bf16 *dqkv, float *scratch, const bf16 *dout, const bf16 *out,
                              const bf16 *qkv, const float *lse, const AttentionSizes &sizes) {
  const bool is_128 = sizes.HS == 128;
  if (!is_128 && sizes.HS != 64) return sm80::attention_backward(context, dqkv, scratch, dout, out, qkv, lse, sizes);
  const AttentionArguments arguments(context, sizes, block_lines);
  const auto map = [&](const bf16 *tensor, int heads, int64_t stride, int lines) {
    return heads_map(tensor, heads, sizes.HS, sizes.T, sizes.B, stride, lines);
  };
  const int lines = is_128 ? backward_128::strip_lines : block_lines;
  const CUtensorMap qkv_map = map(qkv, 3 * sizes.NH, sizes.stride(), lines);
  const CUtensorMap dout_map = map(dout, sizes.NH, sizes.C, lines);
  const CUtensorMap dqkv_map = map(dqkv, 3 * sizes.NH, sizes.stride(), 16);
  const unsigned blocks = arguments.blocks(context);
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  with_mask(sizes, [&](auto masked) {
    if (is_128) {
      using namespace backward_128;
      launch_overlapping(context, queries_kernel<masked>, blocks, threads, queries_shared_bytes,
                         map(qkv, 3 * sizes.NH, sizes.stride(), block_lines), qkv_map, dout_map, dqkv_map, dout, out,
                         scratch, lse, arguments, scale);
      launch_overlapping(context, keys_kernel<masked>, blocks, threads, keys_shared_bytes, qkv_map, dout_map, dqkv_map,
                         scratch, arguments, scale);
    } else {
      using namespace backward;
      launch_overlapping(context, queries_kernel<masked>, blocks, threads, QueriesLayout::shared_bytes, qkv_map,
                         dout_map, map(out, sizes.NH, sizes.C, block_lines), dqkv_map, scratch, lse, arguments, scale);
      launch_overlapping(context, keys_kernel<masked>, blocks, threads, KeysLayout::shared_bytes, qkv_map, dout_map,
                         dqkv_map, scratch, arguments, scale);
    }
  });
}

}  // namespace gpt2
