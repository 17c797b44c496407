// The columnwise copy of scaled rows of bf16, for the classifier.
#pragma once

#include "common/fp8.cuh"

namespace gpt2 {

// columnwise [C,N/16,16] = factor * rows in E4M3, with scales from the scales of the rows' FP8 copies. weights [2,N], N
// rounded up to a multiple of 16, in the same order: each factor over its block's scale, as a number in E4M3 and 2^-6
// times another.
void scale_columnwise(const CudaContext &, uint8_t *columnwise, float *columnwise_scale, uint8_t *weights,
                      const bf16 *rows, const float *row_scale, const float *factor, int N, int C);

}  // namespace gpt2
