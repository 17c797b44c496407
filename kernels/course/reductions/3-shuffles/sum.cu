// out[block] = the sum of the block's 256 numbers, of n: shuffles within each warp, then across the warps' sums.

constexpr int threads = 256;  // of a block
constexpr int warps = threads / 32;

// Lane 0 gets the sum of the 32 lanes' values; the other lanes get sums of some.
__device__ float warp_sum(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_down_sync(0xffffffffu, value, lanes);
  return value;
}

// Thread 0 gets the sum of the block's values.
__device__ float block_sum(float value) {
  __shared__ float sums[warps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = warp_sum(value);
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  return warp > 0 ? 0 : warp_sum(lane < warps ? sums[lane] : 0);
}

__global__ void sum(float *out, const float *in, int n) {
  const int i = blockIdx.x * threads + threadIdx.x;
  const float total = block_sum(i < n ? in[i] : 0);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}
