// Sums of rows that share a token, in an order that depends only on the tokens.
#pragma once

#include "common/device.cuh"

namespace gpt2 {

// The most tokens that can be sorted.
constexpr int most_sorted_tokens = 65536;

// sums[token,:] += factor * rows[position,:], [N,C], into a gradient; without factors, += rows[position,:]. Unless
// NULL, factor_sums[token] += factor. Positions with a token outside the vocabulary are added nowhere.
void add_token_sums(const CudaContext &, void *sums, float *factor_sums, const void *rows, const float *factors,
                    const int32_t *tokens, int N, int C, int V, void *scratch);
int64_t token_sums_scratch(int64_t N, int C);

}  // namespace gpt2
