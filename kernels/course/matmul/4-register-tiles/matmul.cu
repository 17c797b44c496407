// A block of 256 threads computes a tile of 128 x 128 results in steps of 16 in k; a thread has 8 x 8 of them in registers. 16
// elements that it reads from shared memory serve 64 multiplications, not 1.
#include "../operands.cuh"

constexpr int tile = 128, step_k = 16, threads = 256;
// 130, not 128: the next k is two banks further, so that 16 k's of two lines are written to 32 banks.
using Tile = float[step_k][tile + 2];

// to[k][line] = the operand at line0 + line, k0 + k; 8 elements a thread. Neighbouring threads read neighbouring addresses.
template <bool K_INNER>
__device__ void fill(Tile &to, const Operand<K_INNER> &from, int line0, int k0) {
#pragma unroll
  for (int i = threadIdx.x; i < tile * step_k; i += threads) {
    const int line = K_INNER ? i / step_k : i % tile, k = K_INNER ? i % step_k : i / tile;
    to[k][line] = from.at(line0 + line, k0 + k);
  }
}

template <bool A_K_INNER, bool B_K_INNER, class T>
__device__ void product(const Operand<A_K_INNER> &a, const Operand<B_K_INNER> &b, const Result<T> &result) {
  __shared__ Tile a_tile, b_tile;
  const int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
  // A thread has every 16th row and column, from its own on: neighbouring threads have neighbouring columns.
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  float sums[8][8] = {};
  for (int k0 = 0; k0 < a.K; k0 += step_k) {
    fill(a_tile, a, m0, k0);
    fill(b_tile, b, n0, k0);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < step_k; k++) {
      float x[8], y[8];
#pragma unroll
      for (int i = 0; i < 8; i++) x[i] = a_tile[k][row + 16 * i], y[i] = b_tile[k][column + 16 * i];
#pragma unroll
      for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) sums[i][j] += x[i] * y[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
#pragma unroll
    for (int j = 0; j < 8; j++) result.store(m0 + row + 16 * i, n0 + column + 16 * j, sums[i][j]);
  }
}

// out = in * weight^T + bias
__global__ void __launch_bounds__(threads, 2) matmul_forward(element *out, const element *in, const element *weight,
                                                             const element *bias, int N, int C, int O) {
  product(Operand<true>{in, N, C}, Operand<true>{weight, O, C}, Result<element>{out, bias, N, O, false});
}

// din = dout * weight
__global__ void __launch_bounds__(threads, 2) matmul_backward_input(element *din, const element *dout, const element *weight,
                                                                    int N, int C, int O) {
  product(Operand<true>{dout, N, O}, Operand<false>{weight, C, O}, Result<element>{din, nullptr, N, C, false});
}

// dweight (=|+=) dout^T * in
__global__ void __launch_bounds__(threads, 2) matmul_backward_weight(gradient *dweight, const element *dout,
                                                                     const element *in, int N, int C, int O, int accumulate) {
  product(Operand<false>{dout, O, N}, Operand<false>{in, C, N}, Result<gradient>{dweight, nullptr, O, C, accumulate != 0});
}
