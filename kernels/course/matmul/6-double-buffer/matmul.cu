// As rung 5, but with two pairs of tiles in shared memory: while one pair is multiplied, the next is copied from memory to the other.
// Rung 5 waits for memory in each step, and only another block on the SM can compute meanwhile.
#include "../async-tile.cuh"

constexpr int tile = 128, step_k = 16, threads = 256;
constexpr int some = 4;  // k's that a thread reads at a time

// The eight lines of a thread in a tile. Of values[line][k] it has every 16th, so that neighbouring threads read neighbouring rows; of
// values[k][line] two times four neighbours, which are one read.
template <bool K_INNER>
__device__ int line_of(int own, int i) {
  return K_INNER ? own + 16 * i : i / 4 * 64 + 4 * own + i % 4;
}

// values[i][j] = the thread's line i at k + j.
template <bool K_INNER>
__device__ void read(float (&values)[8][some], const AsyncTile<K_INNER, tile, step_k> &from, int own, int k) {
#pragma unroll
  for (int n = 0; n < 8; n++) {
    const int row = K_INNER ? line_of<true>(own, n) : k + n / 2, column = K_INNER ? k : line_of<false>(own, n % 2 * 4);
    const Pack<some> pack = *reinterpret_cast<const Pack<some> *>(&from.values[row][column]);
#pragma unroll
    for (int j = 0; j < some; j++) (K_INNER ? values[n][j] : values[n % 2 * 4 + j][n / 2]) = static_cast<float>(pack.values[j]);
  }
}

template <bool A_K_INNER, bool B_K_INNER, class T>
__device__ void product(const Operand<A_K_INNER> &a, const Operand<B_K_INNER> &b, const Result<T> &result) {
  using TileA = AsyncTile<A_K_INNER, tile, step_k>;
  using TileB = AsyncTile<B_K_INNER, tile, step_k>;
  __shared__ TileA a_tiles[2];
  __shared__ TileB b_tiles[2];
  const int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  const auto fill = [&](int stage, int k0) {
    a_tiles[stage].template fill<threads>(a, m0, k0);
    b_tiles[stage].template fill<threads>(b, n0, k0);
    __pipeline_commit();
  };
  float sums[8][8] = {};
  fill(0, 0);
  for (int k0 = 0, stage = 0; k0 < a.K; k0 += step_k, stage ^= 1) {
    __pipeline_wait_prior(0);
    // All threads' copies are there, and nobody reads the other stage any more.
    __syncthreads();
    if (k0 + step_k < a.K) fill(stage ^ 1, k0 + step_k);
    // (Unrolled, this loop needs more than the 128 registers of a thread with two blocks on an SM: bf16 forward spills 100 of them.)
#pragma unroll 1
    for (int k = 0; k < step_k; k += some) {
      float x[8][some], y[8][some];
      read(x, a_tiles[stage], row, k);
      read(y, b_tiles[stage], column, k);
#pragma unroll
      for (int of_some = 0; of_some < some; of_some++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
          for (int j = 0; j < 8; j++) sums[i][j] += x[i][of_some] * y[j][of_some];
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      result.store(m0 + line_of<A_K_INNER>(row, i), n0 + line_of<B_K_INNER>(column, j), sums[i][j]);
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
