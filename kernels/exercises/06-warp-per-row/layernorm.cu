// Layernorm with a warp of 32 threads for each row of C elements.
//
//   mean = sum(x) / C        rstd = 1 / sqrt(sum((x - mean)^2) / C + eps)
//
// First write warp_sum, below, by shuffles: __shfl_xor_sync(0xffffffffu, value, n) gives lane i the value of lane i ^ n. With n = 16, 8,
// 4, 2 and 1 in turn, every lane ends with the sum of all 32. Then compute the mean `m` and `r` = rstd. Lane l takes the elements l,
// l + 32, l + 64, ... of the row. Every lane needs both results.
// Chapter: kernels/course/layernorm.

// The sum of the 32 lanes' values, which every lane gets.
__device__ float warp_sum(float value);

__global__ void layernorm_forward(float *out, float *mean, float *rstd, const float *in, const float *weight,
                                  const float *bias, int C, float eps) {
  const int row = blockIdx.x, lane = threadIdx.x;
  const float *x = in + static_cast<size_t>(row) * C;
  float *y = out + static_cast<size_t>(row) * C;
  float m = 0, r = 0;
  // Your code begins here.

  // It ends here.
  for (int c = lane; c < C; c += 32) y[c] = (x[c] - m) * r * weight[c] + bias[c];
  if (lane == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

__device__ float warp_sum(float value) {
  // Your code begins here.

  // It ends here.
  return value;
}
