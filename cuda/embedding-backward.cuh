// Sums of rows that share a token, in an order that depends only on the tokens.
#pragma once

#include "common/device.cuh"

namespace gpt2 {

// The largest vocabulary whose tokens can be sorted.
constexpr int most_sorted_tokens = 65536;

// For each position: sums[token,:] += factors[position] * rows[position,:], with rows [N,C], and sums [V,C] in the
// dtype of weight gradients. Unless NULL, factor_sums[token] += factors[position]. If `factors` is NULL, every factor
// is 1. Positions whose token is outside [0, V) are skipped.
void add_token_sums(const CudaContext &, void *sums, float *factor_sums, const void *rows, const float *factors,
                    const int32_t *tokens, int N, int C, int V, void *scratch);
int64_t token_sums_scratch(int64_t N, int C);

}  // namespace gpt2
