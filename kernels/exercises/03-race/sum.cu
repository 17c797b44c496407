// Find a race. This kernel often gives the right sum, and nevertheless has an error.
//
// The lanes of a warp add their sums by shuffles, and the first warp adds the sums of the eight warps. The emulator names the two lines
// that race, and the element of shared memory: npx gpt2 kernel test my-course/03-race --device cpu. Add what is missing; no other line
// needs a change. The op is loss_sum, as in exercise 2.
// Chapter: kernels/course/reductions.
#include "gpt2.h"

constexpr int threads = 256, warps = threads / 32;

__device__ double warp_sum(double value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}

__global__ void loss_sum(float *step, const float *losses, int N, float scale, int accumulate) {
  __shared__ double sums[warps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  double sum = 0;
  for (int n = threadIdx.x; n < N; n += threads) sum += losses[n];
  // Your code begins here.
  sum = warp_sum(sum);
  if (lane == 0) sums[warp] = sum;
  if (warp == 0) sum = warp_sum(lane < warps ? sums[lane] : 0);
  // It ends here.
  if (threadIdx.x == 0) {
    step[GPT2_STEP_LOSS] = (accumulate ? step[GPT2_STEP_LOSS] : 0) + static_cast<float>(sum * scale);
  }
}
