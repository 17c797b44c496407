// out = a + b for matrices of rows x columns, one thread per sum. Blocks are rectangles.

__global__ void matrix_add(float *out, const float *a, const float *b, int rows, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || column >= columns) return;
  const int i = row * columns + column;
  out[i] = a[i] + b[i];
}
