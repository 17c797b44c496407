// x = a x + b, `count` times: the steps of one number depend on no other number, so a thread does them all, in a register.
__global__ void steps(float *x, float a, float b, int n, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = x[i];
  for (int step = 0; step < count; step++) value = a * value + b;
  x[i] = value;
}
