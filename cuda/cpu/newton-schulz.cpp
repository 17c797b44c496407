// A step of a Newton-Schulz iteration by the matmuls of matmul.cpp, matrix after matrix.
#include <algorithm>

#include "../gpt2.h"
#include "kernels.h"

namespace gpt2::GPT2_PATH {

namespace {

// sum = scale * value + factor * sum
void add_scaled(Task task, float *sum, float factor, const float *value, float scale, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) sum[i] = scale * value[i] + factor * sum[i];
  });
}

}  // namespace

void newton_schulz(Task task, float *out, const float *in, int M, int R, int K, float a, float b, float c) {
  const int64_t square = static_cast<int64_t>(R) * R, count = static_cast<int64_t>(R) * K;
  float *gram = task.scratch, *polynomial = gram + square;
  const Task products{task.pool, polynomial + square, &fp32_engine};
  for (int matrix = 0; matrix < M; matrix++) {
    const float *x = in + matrix * count;
    float *result = out + matrix * count;
    matmul_forward(products, gram, nullptr, x, x, nullptr, nullptr, R, K, R, GPT2_NO_ACTIVATION);
    matmul_backward_input(products, polynomial, gram, gram, nullptr, nullptr, R, R, R, GPT2_NO_ACTIVATION);
    add_scaled(task, polynomial, c, gram, b, square);
    matmul_backward_input(products, result, polynomial, x, nullptr, nullptr, R, K, R, GPT2_NO_ACTIVATION);
    add_scaled(task, result, 1, x, a, count);
  }
}

// Floats of scratch, enough for normalize_matrices, too.
int64_t newton_schulz_scratch(int threads, int, int R, int K) {
  const int64_t products = 2 * static_cast<int64_t>(R) * R + matmul_scratch(threads, R, K, R, false);
  return std::max(products, global_norm_scratch(threads, static_cast<int64_t>(R) * K, 0));
}

}  // namespace gpt2::GPT2_PATH
