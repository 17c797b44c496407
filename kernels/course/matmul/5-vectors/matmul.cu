// As rung 4, a block of 256 threads computes a tile of 128 x 128 results in steps of 16 in k, and a thread has 8 x 8 of them. Memory and
// shared memory are read 16 bytes at a time, with a quarter of the instructions, so that a larger share of the instructions multiplies.
#include "../operands.cuh"

constexpr int tile = 128, step_k = 16, threads = 256;
constexpr int vector = 16 / sizeof(element);
// 132, not 128: rows still begin at multiples of 16 bytes, and the four fp32 packs of a line are written to two halves of the banks.
using Tile = float[step_k][tile + 4];

// to[k][line] = the operand at line0 + line, k0 + k, read in packs of WIDTH.
template <int WIDTH, bool K_INNER>
__device__ void fill(Tile &to, const Operand<K_INNER> &from, int line0, int k0) {
  constexpr int packs = (K_INNER ? step_k : tile) / WIDTH;  // neighbours in memory
#pragma unroll
  for (int n = 0; n < tile * step_k / WIDTH / threads; n++) {
    const int i = n * threads + threadIdx.x, outer = i / packs, inner = i % packs * WIDTH;
    const int line = K_INNER ? outer : inner, k = K_INNER ? inner : outer;
    const Pack<WIDTH> pack = from.template pack<WIDTH>(line0 + line, k0 + k);
    float values[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; j++) values[j] = static_cast<float>(pack.values[j]);
    if constexpr (K_INNER || WIDTH == 1) {
#pragma unroll
      for (int j = 0; j < WIDTH; j++) to[k + j][line] = values[j];
    } else {
#pragma unroll
      for (int j = 0; j < WIDTH; j += 4) {
        *reinterpret_cast<float4 *>(&to[k][line + j]) = {values[j], values[j + 1], values[j + 2], values[j + 3]};
      }
    }
  }
}

// The eight lines of a thread are two times four neighbours: lines 4 * own and 64 + 4 * own, and the three after each.
__device__ int line_of(int own, int i) { return i / 4 * 64 + 4 * own + i % 4; }

__device__ void read(float (&values)[8], const float *row, int own) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const float4 four = *reinterpret_cast<const float4 *>(row + line_of(own, 4 * half));
    values[4 * half] = four.x, values[4 * half + 1] = four.y, values[4 * half + 2] = four.z, values[4 * half + 3] = four.w;
  }
}

template <int WIDTH, bool A_K_INNER, bool B_K_INNER>
__device__ void multiply(float (&sums)[8][8], Tile &a_tile, Tile &b_tile, const Operand<A_K_INNER> &a,
                         const Operand<B_K_INNER> &b) {
  for (int k0 = 0; k0 < a.K; k0 += step_k) {
    fill<WIDTH>(a_tile, a, blockIdx.y * tile, k0);
    fill<WIDTH>(b_tile, b, blockIdx.x * tile, k0);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < step_k; k++) {
      float x[8], y[8];
      read(x, a_tile[k], threadIdx.x / 16);
      read(y, b_tile[k], threadIdx.x % 16);
#pragma unroll
      for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) sums[i][j] += x[i] * y[j];
      }
    }
    __syncthreads();
  }
}

template <bool A_K_INNER, bool B_K_INNER, class T>
__device__ void product(const Operand<A_K_INNER> &a, const Operand<B_K_INNER> &b, const Result<T> &result) {
  __shared__ __align__(16) Tile a_tile, b_tile;
  float sums[8][8] = {};
  // An odd size is read by element.
  if (a.has_vectors() && b.has_vectors()) {
    multiply<vector>(sums, a_tile, b_tile, a, b);
  } else {
    multiply<1>(sums, a_tile, b_tile, a, b);
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int m = blockIdx.y * tile + line_of(threadIdx.x / 16, i);
#pragma unroll
    for (int j = 0; j < 8; j++) result.store(m, blockIdx.x * tile + line_of(threadIdx.x % 16, j), sums[i][j]);
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
