// A block of 32 x 32 threads computes a tile of 32 x 32 results in steps of 32 in k. Each step copies a tile of either operand to
// shared memory, where 32 threads use every element: memory is read 32 times less.
#include "../operands.cuh"

constexpr int tile = 32;
// One more than 32: a column's elements lie in 32 banks, so that a tile can be written transposed.
using Tile = float[tile][tile + 1];

// to[k][line] = the operand at line0 + line, k0 + k. Neighbouring threads read neighbouring addresses.
template <bool K_INNER>
__device__ void fill(Tile &to, const Operand<K_INNER> &from, int line0, int k0) {
  const int line = K_INNER ? threadIdx.y : threadIdx.x, k = K_INNER ? threadIdx.x : threadIdx.y;
  to[k][line] = from.at(line0 + line, k0 + k);
}

template <bool A_K_INNER, bool B_K_INNER, class T>
__device__ void product(const Operand<A_K_INNER> &a, const Operand<B_K_INNER> &b, const Result<T> &result) {
  __shared__ Tile a_tile, b_tile;
  const int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
  float sum = 0;
  for (int k0 = 0; k0 < a.K; k0 += tile) {
    fill(a_tile, a, m0, k0);
    fill(b_tile, b, n0, k0);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < tile; k++) sum += a_tile[k][threadIdx.y] * b_tile[k][threadIdx.x];
    __syncthreads();  // nobody overwrites a tile that another thread still reads
  }
  result.store(m0 + threadIdx.y, n0 + threadIdx.x, sum);
}

// out = in * weight^T + bias
__global__ void matmul_forward(element *out, const element *in, const element *weight, const element *bias, int N, int C,
                               int O) {
  product(Operand<true>{in, N, C}, Operand<true>{weight, O, C}, Result<element>{out, bias, N, O, false});
}

// din = dout * weight
__global__ void matmul_backward_input(element *din, const element *dout, const element *weight, int N, int C, int O) {
  product(Operand<true>{dout, N, O}, Operand<false>{weight, C, O}, Result<element>{din, nullptr, N, C, false});
}

// dweight (=|+=) dout^T * in
__global__ void matmul_backward_weight(gradient *dweight, const element *dout, const element *in, int N, int C, int O,
                                       int accumulate) {
  product(Operand<false>{dout, O, N}, Operand<false>{in, C, N}, Result<gradient>{dweight, nullptr, O, C, accumulate != 0});
}
