// As rung 7, but tensor cores wait for less: two steps of k are on their way to shared memory while a third is multiplied, and the next
// fragments are read before the current ones are multiplied. Copies take little arithmetic, results are written in accesses of 8 or 16
// bytes, and the gradient of the weight has enough blocks. A block of 4 warps computes a tile of 128 x 128 in steps of 64 in k.
#include "tile.cuh"

constexpr int stages = 3, group_height = 8;

template <bool A_K_INNER, bool B_K_INNER>
struct Stage {
  Tile<A_K_INNER> a;
  Tile<B_K_INNER> b;
};

// Computes a tile of bias + a * b^T over `steps` steps of k, from first_step on. `store_four(m, n, four)` gets four neighbours of a row.
// If ADDS_LINES and line_sums is not null, line_sums[m] = the sum of a over these k's.
template <bool ADDS_LINES, bool A_K_INNER, bool B_K_INNER, class Store>
__device__ void product(const Operand<A_K_INNER> &a, const Operand<B_K_INNER> &b, const element *bias, float *line_sums,
                        int first_step, int steps, const Store &store_four) {
  extern __shared__ float4 memory[];
  auto *stage = reinterpret_cast<Stage<A_K_INNER, B_K_INNER> *>(memory);
  // Blocks that run at the same time take tiles near each other, 8 in m, then the next in n: most of what they read is then in L2.
  const int tiles_m = (a.lines + tile - 1) / tile, tiles_n = (b.lines + tile - 1) / tile;
  const int group = blockIdx.x / (group_height * tiles_n), in_group = blockIdx.x % (group_height * tiles_n);
  const int height = min(group_height, tiles_m - group * group_height);
  const int m0 = (group * group_height + in_group % height) * tile, n0 = in_group / height * tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 2 * 64, column = warp % 2 * 64;

  Copier<A_K_INNER> copier_a(a, m0, first_step * step_k);
  Copier<B_K_INNER> copier_b(b, n0, first_step * step_k);
  const auto copy_a = [&](int to, int step) {
    if (step < steps) copier_a.copy(stage[to].a, (first_step + step) * step_k);
  };
  // A step without copies is committed too: it counts when waiting.
  const auto copy_b = [&](int to, int step) {
    if (step < steps) copier_b.copy(stage[to].b, (first_step + step) * step_k);
    __pipeline_commit();
  };
  for (int step = 0; step < stages - 1; step++) copy_a(step, step), copy_b(step, step);

  float first[8][2] = {}, sums[4][8][4];  // of 16 rows and 8 columns each
  if (bias) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      // (Columns outside are computed, too, but not stored.)
      for (int e = 0; e < 2; e++) first[j][e] = static_cast<float>(bias[min(n0 + column + 8 * j + lane % 4 * 2 + e, b.lines - 1)]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4 * 8 * 4; i++) sums[i / 32][i / 4 % 8][i % 4] = first[i / 4 % 8][i % 2];
  // The sum of a's lines is a product, too: column i of these results has the lines of x[i], multiplied by a column i of ones. Only one
  // block of each row of tiles computes it.
  const bool adds_lines = ADDS_LINES && line_sums && n0 == 0 && column == 0;
  float a_sums[4] = {};

  int now = 0;  // the stage that is multiplied
  Fragment x[2][4], y[2][4];
  const auto read = [&](int to, int k) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      x[to][i] = stage[now].a.fragment(row + 16 * i, k);
      y[to][i] = stage[now].b.fragment(column + 16 * i, k);
    }
  };
  // Waits for all copies but those of the last step.
  __pipeline_wait_prior(stages - 2);
  __syncthreads();
  read(0, 0);
  for (int step = 0; step < steps; step++) {
#pragma unroll
    for (int k = 0; k < step_k; k += 16) {
      const int used = k / 16 % 2;
      if (k + 16 < step_k) {
        read(used ^ 1, k + 16);
      } else if (step + 1 < steps) {
        __pipeline_wait_prior(stages - 2);
        __syncthreads();
        now = now == stages - 1 ? 0 : now + 1;
        read(used ^ 1, 0);
      }
      // Into the stage of the last step, which no thread reads after the barrier.
      const int freed = now == 0 ? stages - 1 : now - 1;
      if (k == 0) copy_a(freed, step + stages - 1);
      if (k == 16) copy_b(freed, step + stages - 1);
#pragma unroll
      for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) multiply(sums[i][j], x[used][i], y[used][j / 2], j % 2);
      }
      if (adds_lines) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const unsigned ones = lane / 4 == i ? packed(1, 1) : 0;
          multiply(a_sums, x[used][i], {ones, ones, ones, ones}, 0);
        }
      }
    }
  }

  const bool is_odd = lane % 2 == 1;
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int m = m0 + row + 16 * i + 8 * half + lane / 4;
      if (adds_lines && lane % 4 == i / 2 && m < a.lines) line_sums[m] = a_sums[2 * half + i % 2];
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        // A lane has two neighbours of the left result and two of the right. It swaps a pair with the next lane, and has four of one.
        const float *left = &sums[i][j][2 * half], *right = &sums[i][j + 1][2 * half];
        const float first = __shfl_xor_sync(0xffffffffu, is_odd ? left[0] : right[0], 1);
        const float second = __shfl_xor_sync(0xffffffffu, is_odd ? left[1] : right[1], 1);
        const float four[4] = {is_odd ? first : left[0], is_odd ? second : left[1], is_odd ? right[0] : first,
                               is_odd ? right[1] : second};
        store_four(m, n0 + column + 8 * (is_odd ? j + 1 : j) + lane % 4 / 2 * 4, four);
      }
    }
  }
}

__device__ int steps_of(int K) { return (K + step_k - 1) / step_k; }

// out = in * weight^T + bias
__global__ void __launch_bounds__(threads, 2) matmul_forward(element *out, const element *in, const element *weight,
                                                             const element *bias, int N, int C, int O) {
  product<false>(Operand<true>{in, N, C}, Operand<true>{weight, O, C}, bias, nullptr, 0, steps_of(C),
                 [=](int m, int n, const float (&four)[4]) { Result<element>{out, nullptr, N, O, false}.store_four(m, n, four); });
}

// din = dout * weight
__global__ void __launch_bounds__(threads, 2) matmul_backward_input(element *din, const element *dout, const element *weight,
                                                                    int N, int C, int O) {
  product<false>(Operand<true>{dout, N, O}, Operand<false>{weight, C, O}, nullptr, nullptr, 0, steps_of(O),
                 [=](int m, int n, const float (&four)[4]) { Result<element>{din, nullptr, N, C, false}.store_four(m, n, four); });
}

// In the scratch memory: of each part the sums of dout [parts,O], then, if there are several, the products [parts,O,C].
__device__ float *products_in(float *scratch, int parts, int O) { return scratch + static_cast<size_t>(parts) * O; }

// A block takes part blockIdx.z of N. If there is one part, dweight (=|+=) dout^T * in.
__global__ void __launch_bounds__(threads, 2) matmul_backward_weight(gradient *dweight, float *scratch, const element *dout,
                                                                     const element *in, int N, int C, int O, int parts,
                                                                     int accumulate, int has_bias) {
  const int part = blockIdx.z, steps = (steps_of(N) + parts - 1) / parts, first_step = part * steps;
  float *products = products_in(scratch, parts, O) + static_cast<size_t>(part) * O * C;
  product<true>(Operand<false>{dout, O, N}, Operand<false>{in, C, N}, nullptr, has_bias ? scratch + part * O : nullptr, first_step,
                min(steps, steps_of(N) - first_step), [=](int m, int n, const float (&four)[4]) {
                  parts > 1 ? Result<float>{products, nullptr, O, C, false}.store_four(m, n, four)
                            : Result<gradient>{dweight, nullptr, O, C, accumulate != 0}.store_four(m, n, four);
                });
}

// dweight (=|+=) the sum of the parts' products, in the order of parts.
__global__ void matmul_add_parts(gradient *dweight, float *scratch, int C, int O, int parts, int accumulate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= O * C) return;
  float sum = accumulate ? static_cast<float>(dweight[i]) : 0.0f;
#pragma unroll 4
  for (int part = 0; part < parts; part++) sum += products_in(scratch, parts, O)[static_cast<size_t>(part) * O * C + i];
  dweight[i] = static_cast<gradient>(sum);
}
