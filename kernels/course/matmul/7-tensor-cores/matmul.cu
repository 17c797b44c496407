// As rung 6, but tensor cores multiply, in bf16: 2048 multiplications and additions in one instruction of a warp. A block of 4 warps
// computes a tile of 128 x 128 in steps of 64 in k; a warp has 64 x 64 of it, in 128 registers of a lane. Eight fragments that it reads
// from shared memory serve 32 of these instructions.
#include "../../tensor-cores.cuh"
#include "../async-tile.cuh"

constexpr int tile = 128, step_k = 64, threads = 128;
static_assert(sizeof(element) == 2, "tensor cores multiply bf16 here");

template <bool A_K_INNER, bool B_K_INNER>
struct Stage {
  AsyncTile<A_K_INNER, tile, step_k> a;
  AsyncTile<B_K_INNER, tile, step_k> b;
};

// 16 lines of 16 k's.
template <bool K_INNER>
__device__ Fragment fragment(const AsyncTile<K_INNER, tile, step_k> &from, int line, int k) {
  return load_fragment<K_INNER>(K_INNER ? &from.values[line][k] : &from.values[k][line], sizeof from.values[0] / sizeof(element));
}

template <bool A_K_INNER, bool B_K_INNER, class T>
__device__ void product(const Operand<A_K_INNER> &a, const Operand<B_K_INNER> &b, const Result<T> &result) {
  extern __shared__ float4 memory[];
  auto *stages = reinterpret_cast<Stage<A_K_INNER, B_K_INNER> *>(memory);
  const int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 2 * 64, column = warp % 2 * 64;
  const auto fill = [&](int stage, int k0) {
    stages[stage].a.template fill<threads>(a, m0, k0);
    stages[stage].b.template fill<threads>(b, n0, k0);
    __pipeline_commit();
  };
  float sums[4][8][4] = {};  // of 16 rows and 8 columns each
  fill(0, 0);
  for (int k0 = 0, stage = 0; k0 < a.K; k0 += step_k, stage ^= 1) {
    __pipeline_wait_prior(0);
    __syncthreads();
    if (k0 + step_k < a.K) fill(stage ^ 1, k0 + step_k);
#pragma unroll
    for (int k = 0; k < step_k; k += 16) {
      Fragment x[4], y[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        x[i] = fragment(stages[stage].a, row + 16 * i, k);
        y[i] = fragment(stages[stage].b, column + 16 * i, k);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) multiply(sums[i][j], x[i], y[j / 2], j % 2);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int m = m0 + row + 16 * i + lane / 4 + e / 2 * 8, n = n0 + column + 8 * j + lane % 4 * 2 + e % 2;
        result.store(m, n, sums[i][j][e]);
      }
    }
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
