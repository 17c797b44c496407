// x = a x + b: a small operation, launched once for each step.
__global__ void step(float *x, float a, float b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = a * x[i] + b;
}
