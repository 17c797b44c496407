// Sum a vector with the 256 threads of one block.
//
// Each thread has summed every 256th element. What is missing is the sum of the threads' sums: halve the number of sums until one is
// left. In each round, thread i of the lower half adds what thread i of the upper half has. All threads must meet at a barrier,
// __syncthreads(), before the first round, and again after each round. Every thread must reach it, so it cannot be inside the `if`.
// The op is loss_sum. It stores the sum times `scale` in one element of the small array `step`, and with `accumulate` it adds to what is
// there. You need none of this to fill the hole.
// Chapter: kernels/course/reductions.
#include "gpt2.h"

constexpr int threads = 256;

__global__ void loss_sum(float *step, const float *losses, int N, float scale, int accumulate) {
  __shared__ double sums[threads];
  double sum = 0;
  for (int n = threadIdx.x; n < N; n += threads) sum += losses[n];
  sums[threadIdx.x] = sum;
  // Your code begins here: sums[0] becomes the sum of all.

  // It ends here.
  if (threadIdx.x == 0) {
    step[GPT2_STEP_LOSS] = (accumulate ? step[GPT2_STEP_LOSS] : 0) + static_cast<float>(sums[0] * scale);
  }
}
