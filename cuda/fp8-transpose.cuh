// The columnwise copy of scaled rows of bf16, for the classifier.
#pragma once

#include "common/fp8.cuh"

namespace gpt2 {

// columnwise [C,N/16,16] = factor [N] * rows [N,C] in E4M3. A block's scale follows from |factor| * row_scale;
// row_scale [N] has the scales of the rows' FP8 copies. weights [2,N] (N rounded up to a multiple of 16, rows in
// columnwise order) = factor / the block's scale, as the sum of two E4M3 numbers: weights[0] + 2^-6 weights[1].
void scale_columnwise(const CudaContext &, uint8_t *columnwise, float *columnwise_scale, uint8_t *weights,
                      const bf16 *rows, const float *row_scale, const float *factor, int N, int C);

}  // namespace gpt2
