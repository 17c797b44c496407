// Muon (Jordan 2024): momentum, norm and update; its Newton-Schulz iteration is in newton-schulz.cpp.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../gpt2.h"
#include "kernels.h"

namespace gpt2::GPT2_PATH {

namespace {

// Rows that a thread takes together: 64 bytes of each line of a transposed `direction`.
constexpr int slab = 16;

int slabs_of(int rows) { return (rows + slab - 1) / slab; }

}  // namespace

void muon_momentum(Task task, float *direction, float *momentum, const float *gradient, const float *step, int rows,
                   int columns, int scalar) {
  if (step[GPT2_STEP_UPDATED] == 0) return;
  const float mu = step[scalar], clip = step[GPT2_STEP_CLIP], share = 1.0f - mu;
  task.pool.each(slabs_of(rows), [&](int64_t index) {
    const int first = static_cast<int>(index) * slab, last = std::min(first + slab, rows);
    for (int row = first; row < last; row++) {
      const size_t start = static_cast<size_t>(row) * columns;
#pragma omp simd
      for (size_t i = start; i < start + columns; i++) momentum[i] = mu * momentum[i] + share * (gradient[i] * clip);
    }
    const auto nesterov = [&](size_t i) { return mu * momentum[i] + share * (gradient[i] * clip); };
    if (rows > columns) {
      for (int column = 0; column < columns; column++) {
        for (int row = first; row < last; row++) {
          direction[static_cast<size_t>(column) * rows + row] = nesterov(static_cast<size_t>(row) * columns + column);
        }
      }
    } else {
      const size_t start = static_cast<size_t>(first) * columns, end = static_cast<size_t>(last) * columns;
#pragma omp simd
      for (size_t i = start; i < end; i++) direction[i] = nesterov(i);
    }
  });
}

void normalize_matrices(Task task, float *matrices, int M, int R, int K, float margin, float eps) {
  const int64_t count = static_cast<int64_t>(R) * K;
  for (int matrix = 0; matrix < M; matrix++) {
    float *values = matrices + matrix * count;
    const float norm = static_cast<float>(std::sqrt(square_sum(task, values, count)));
    const float scale = 1.0f / (margin * norm + eps);
    task.pool.ranges(count, [&](int64_t first, int64_t last) {
#pragma omp simd
      for (int64_t i = first; i < last; i++) values[i] *= scale;
    });
  }
}

void muon_update(Task task, float *weight, float *master, const float *direction, const float *step, int rows,
                 int columns, float rate, float weight_decay) {
  if (step[GPT2_STEP_UPDATED] == 0) return;
  const float learning_rate = rate * step[GPT2_STEP_LEARNING_RATE];
  const float keep = 1.0f - learning_rate * weight_decay;
  const float scale = learning_rate * std::sqrt(std::max(1.0f, static_cast<float>(rows) / static_cast<float>(columns)));
  task.pool.each(slabs_of(rows), [&](int64_t index) {
    const int first = static_cast<int>(index) * slab, last = std::min(first + slab, rows);
    if (rows > columns) {
      for (int column = 0; column < columns; column++) {
        for (int row = first; row < last; row++) {
          float &value = master[static_cast<size_t>(row) * columns + column];
          value = keep * value - scale * direction[static_cast<size_t>(column) * rows + row];
        }
      }
    } else {
      const size_t start = static_cast<size_t>(first) * columns, end = static_cast<size_t>(last) * columns;
#pragma omp simd
      for (size_t i = start; i < end; i++) master[i] = keep * master[i] - scale * direction[i];
    }
  });
  if (weight != master) std::memcpy(weight, master, static_cast<size_t>(rows) * columns * sizeof(float));
}

}  // namespace gpt2::GPT2_PATH
