// Makes a columnwise FP8 copy from a rowwise copy. As scales are powers of two, only values that become subnormal round.
#include "fp8.h"
#include "kernels.h"

namespace gpt2::GPT2_PATH {

void fp8_transpose(Task task, uint8_t *columnwise, float *columnwise_scale, float *columnwise_norm,
                   const uint8_t *values, const float *scale, const float *norm, int N, int C) {
  for (int first = 0; first < N; first += GPT2_FP8_BLOCK) {
    const int rows = std::min<int>(GPT2_FP8_BLOCK, N - first);
    columnwise_scale[first / GPT2_FP8_BLOCK] = largest_size(scale + first, rows);
    columnwise_norm[first / GPT2_FP8_BLOCK] = largest_size(norm + first, rows);
  }
  store_columnwise(task, columnwise, N, C, [&](int64_t n, int c) {
    const float factor = scale[n] * inverse_of(columnwise_scale[n / GPT2_FP8_BLOCK]);
    return to_e4m3(from_e4m3(values[n * C + c]) * factor);
  });
}

}  // namespace gpt2::GPT2_PATH
