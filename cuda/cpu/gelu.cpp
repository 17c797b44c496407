// GELU alone; with a matmul, matmul.cpp computes it line by line.
#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

void gelu_forward(Task task, float *out, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) { gelu_line(out + first, in + first, last - first); });
}

void gelu_backward(Task task, float *din, const float *dout, const float *in, int64_t count) {
  task.pool.ranges(count, [&](int64_t first, int64_t last) {
    gelu_backward_line(din + first, dout + first, in + first, last - first);
  });
}

}  // namespace gpt2::GPT2_PATH
