// out[block] = the sum of the block's 256 numbers, of n: a tree in shared memory.

constexpr int threads = 256;  // of a block, a power of two

__global__ void sum(float *out, const float *in, int n) {
  __shared__ float sums[threads];
  const int t = threadIdx.x, i = blockIdx.x * threads + t;
  sums[t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = sums[0];
}
