// Gradients of scalar factors: each gradient is a sum over all rows of a matrix. The rows are summed in 256 ranges, and
// the ranges' sums are added in order, so that the number of threads does not change the bits.
#pragma once

#include <algorithm>

#include "kernels.h"

namespace gpt2::GPT2_PATH {

constexpr int factor_parts = 256;

// For each of N rows, calls row(n, sums), which adds the row's terms to K sums. Then out [K] (=|+=) the sums.
template <int K, class Row>
static inline void factor_sums(Task task, float *out, int64_t N, bool accumulate, const Row &row) {
  auto *partial = reinterpret_cast<double *>(task.scratch);
  const int64_t size = (N + factor_parts - 1) / factor_parts;
  task.pool.each(factor_parts, [&](int64_t part) {
    double sums[K] = {};
    for (int64_t n = part * size; n < std::min(N, (part + 1) * size); n++) row(n, sums);
    std::copy_n(sums, K, partial + part * K);
  });
  for (int k = 0; k < K; k++) {
    double sum = accumulate ? out[k] : 0;
    for (int part = 0; part < factor_parts; part++) sum += partial[part * K + k];
    out[k] = static_cast<float>(sum);
  }
}

}  // namespace gpt2::GPT2_PATH
