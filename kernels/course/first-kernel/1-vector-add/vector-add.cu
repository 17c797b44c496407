// out = a + b for vectors of n numbers, one thread per sum.

__global__ void vector_add(float *out, const float *a, const float *b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
