// Multiply matrices with tiles in shared memory: out = in * weight^T + bias, with in [N,C], weight [O,C] and out [N,O].
//
// A block of 16 x 16 threads computes 16 x 16 results, one per thread. It walks over C in steps of 16. In a step each thread copies one
// element of `in` and one of `weight` to shared memory, and then every thread adds 16 products. What lies outside of a matrix counts as
// zero. Think about two barriers: nobody may read a tile that is not complete, or overwrite one that others still read.
// Chapter: kernels/course/matmul.
constexpr int tile = 16;

__global__ void matmul_forward(float *out, const float *in, const float *weight, const float *bias, int N, int C, int O) {
  // [row of the block][step in C]; one more column than needed, so that a column's elements lie in different banks.
  __shared__ float in_tile[tile][tile + 1], weight_tile[tile][tile + 1];
  const int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int first = 0; first < C; first += tile) {
    // Your code begins here.

    // It ends here.
  }
  if (row < N && column < O) out[static_cast<size_t>(row) * O + column] = sum + (bias ? bias[column] : 0);
}
