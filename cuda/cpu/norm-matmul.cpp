// A layernorm, then a matmul, by the kernels of these two ops. Scratch: the layernorm's outputs, the matmul's scratch.
#include "kernels.h"

namespace gpt2::GPT2_PATH {

void norm_matmul_forward(Task task, float *out, float *pre, const float *in, const float *norm_weight,
                         const float *norm_bias, const float *weight, const float *bias, int N, int C, int O,
                         int activation) {
  float *rows = task.scratch, *mean = rows + static_cast<int64_t>(N) * C, *rstd = mean + N;
  norm_forward(task, rows, nullptr, nullptr, nullptr, mean, rstd, in, norm_weight, norm_bias, N, C, 1e-5f);
  matmul_forward(task.with(rstd + N), out, pre, rows, weight, bias, nullptr, N, C, O, activation);
}

int64_t norm_matmul_scratch(int threads, int N, int C, int O) {
  return matmul_scratch(threads, N, C, O, false) + static_cast<int64_t>(N) * (C + 2);
}

}  // namespace gpt2::GPT2_PATH
