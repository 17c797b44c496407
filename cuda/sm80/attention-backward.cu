// Attention backward for bf16 on tensor cores, sm_80 and later, by the two kernels of ../attention.cuh, in which no sum
// is spread over several blocks.
#include "../common/tensor-cores.h"
#include "attention-keys.cuh"
#include "attention-queries.cuh"

namespace gpt2 {

void sm80::attention_backward(const CudaContext &context, bf16 *dqkv, float *D, const bf16 *dout, const bf16 *out,
                              const bf16 *qkv, const float *lse, const AttentionSizes &sizes) {
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  with_head_size(sizes.HS, [&](auto HS) {
    constexpr int shared = backward_shared_bytes<HS>;
    auto *queries = sizes.mask.first ? backward::queries_kernel<HS, true> : backward::queries_kernel<HS, false>;
    auto *keys = sizes.mask.first ? backward::keys_kernel<HS, true> : backward::keys_kernel<HS, false>;
    allow_shared(queries, shared);
    allow_shared(keys, shared);
    const auto grid = static_cast<unsigned>(ceil_divide(sizes.T, Shape<HS>::lines) * sizes.B * sizes.NH);
    queries<<<grid, threads, shared, context.stream>>>(dqkv, D, dout, out, qkv, lse, sizes, scale);
    keys<<<grid, threads, shared, context.stream>>>(dqkv, D, dout, qkv, lse, sizes, scale);
  });
}

}  // namespace gpt2
