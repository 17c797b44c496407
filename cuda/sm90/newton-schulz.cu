// A step of a Newton-Schulz iteration on Hopper, over a batch of matrices X [R,K], in three launches:
//   A = X X^T, B = b A + c A A^T   symmetric_kernel
//   out = a X + B X                interleaved_kernel; its tensor maps have the matrix as outermost dimension
//
// A and B are symmetric: only tiles on and above the diagonal are computed. A tile is stored twice, the second time
// transposed, except on the diagonal. Tiles that cross the diagonal waste work. The table has the multiplications of a
// symmetric matmul, relative to the R^2 K / 2 that are needed, for several sizes of a cluster's tile:
//
//   R                                               768    1024    1280    1600
//   256 x 256                                      1.33    1.25    1.20    1.43
//   256 x 256, the last column of tiles narrower   1.33    1.25    1.20    1.25    (this kernel)
//   256 x 192                                      1.50    1.41    1.32    1.50
//   256 x 128                                      1.33    1.25    1.20    1.41
//   128 x 128                                      1.17    1.13    1.10    1.16
//
// Tiles of 128 columns would read 1.5 times the bytes from L2 per multiplication, more than L2 supplies. The last tiles
// may contain few columns of the matrix: if at most 128, as with R = 1600, only 128 are multiplied.
#include <algorithm>

#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

// Each consumer warp has a buffer of 16 rows x 64 columns; a consumer warpgroup has one of 64 columns x 64 rows.
using SymmetricRing = ProductRing<true, true, 2 * tile_m, (8 + 2 * 4) * buffer_bytes>;

// Stores a warpgroup's 64 rows of a tile and, if `mirrors`, the transposed rows; the tile's columns begin at n0.
//
// For each 64 columns, lane 0 of a warp commits two groups of stores, first the rows, then the transposed rows; without
// `mirrors` the second is empty. So the next buffer is free when only one group is pending. All four warps write the
// transposed buffer; each stores a quarter.
struct MirroredStores {
  const CUtensorMap &map;
  uint32_t straight, transposed;  // addresses of buffers in shared memory
  int consumer;

  template <class Pairs>
  __device__ __forceinline__ void store(const Pairs &pair_of, const ProductArguments &arguments, int matrix, int m0,
                                        int n0, bool mirrors) const {
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const uint64_t policy = store_policy(false);
#pragma unroll
    for (int i = 0; i < 2 * tile_m / 64; i++) {
      const int column = n0 + i * 64;
      if (column >= arguments.N) continue;
      uint32_t packed[4][4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int p = 0; p < 4; p++) {
          const float2 pair = pair_of(i * 8 + j * 2 + p / 2, p % 2);
          packed[j][p] = pack_bf16(pair.x, pair.y);
        }
      }
      if (lane == 0) wait_stores_read<1>();
      __syncwarp();
#pragma unroll
      for (int j = 0; j < 4; j++) store_matrices(matrices_at(straight, j * 2), packed[j]);
      fence_async_proxy();
      __syncwarp();
      if (lane == 0) {
        store_box(map, column, m0 + warp * 16, matrix, straight, policy);
        commit_stores();
      }
      if (mirrors) {
        if (lane == 0) wait_stores_read<1>();
        __syncwarp();
        warpgroup_sync(1 + consumer);
        // A transposed line is a column of the tile; its chunks 2 warp and 2 warp + 1 are this warp's rows.
        const int line = lane / 16 * 8 + lane % 8, chunk = (warp * 2 + lane / 8 % 2) ^ (lane % 8);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          store_matrices_transposed(transposed + (j * 16 + line) * 128 + (chunk << 4), packed[j]);
        }
        fence_async_proxy();
        warpgroup_sync(1 + consumer);
        if (lane == 0) store_box(map, m0, column + warp * 16, matrix, transposed + warp * buffer_bytes, policy);
      }
      if (lane == 0) commit_stores();
    }
  }
};

// out [matrices,M,M] = in in^T; with COMBINES alpha in in^T + beta in, where in [matrices,M,M] must be symmetric.
template <bool COMBINES>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(product_threads, 1)
    symmetric_kernel(const __grid_constant__ ProductMaps maps, const BatchArguments arguments,
                     const ProductOutputs outputs) {
  extern __shared__ unsigned char memory[];
  const SymmetricRing ring(memory);
  const int warp = threadIdx.x % 128 / 32;
  const int warpgroup = ring.begin(maps, [&] { prefetch_map(maps.out); });
  if (warpgroup == 0) {
    ring.produce(arguments, maps);
  } else {
    const int consumer = ring.start_consumer(warpgroup);
    const MirroredStores stores{maps.out, ring.staging + (consumer * 4 + warp) * buffer_bytes,
                                ring.staging + (8 + consumer * 4) * buffer_bytes, consumer};
    BatchUnit unit;
    RingPosition<SymmetricRing::stages> at;
    float result[tile_m];
    auto &half = reinterpret_cast<float(&)[tile_m / 2]>(result);
    for (int index = 0; unit_of(arguments, ring.cluster, index, unit); index++) {
      const int m0 = ring.first_row(unit) + consumer * 64, n0 = unit.n * 2 * tile_m;
      uint32_t previous = SymmetricRing::no_stage;
      Residual<2 * tile_m> other;
      int step = 0;
      const auto multiply_until = [&](int end) {
        if (arguments.N - n0 <= tile_m) {
          for (; step < end; step++) ring.multiply(half, consumer, at, previous, step > 0);
        } else {
          for (; step < end; step++) ring.multiply(result, consumer, at, previous, step > 0);
        }
      };
      if constexpr (COMBINES) {
        multiply_until(unit.steps - 2);
        ProductOutputs of_matrix = outputs;
        of_matrix.residual += static_cast<int64_t>(unit.matrix()) * arguments.M * arguments.N;
        other.load_rows(of_matrix, m0 + warp * 16, n0, arguments.M, arguments.N);
      }
      multiply_until(unit.steps);
      wgmma_wait<0>();
      hold(result);
      ring.release(previous);
      if (m0 >= arguments.M) continue;
      const auto pair_of = [&](int group, int half_row) {
        const int value = group * 4 + half_row * 2;
        float2 pair = make_float2(result[value], result[value + 1]);
        if constexpr (COMBINES) {
          const float2 added = unpack_bf16(other.of_rows[half_row][group]);
          pair.x = outputs.alpha * pair.x + outputs.beta * added.x;
          pair.y = outputs.alpha * pair.y + outputs.beta * added.y;
        }
        return pair;
      };
      stores.store(pair_of, arguments, unit.matrix(), m0, n0, unit.m != unit.n);
    }
  }
  ring.end();
}

// Launches a kernel that computes `matrices` results [M,N], each in `steps` steps of k.
template <class Kernel>
void launch_batch(const CudaContext &context, Kernel kernel, int shared_bytes, const ProductMaps &maps,
                  const ProductOutputs &outputs, int matrices, int M, int N, int tile_n, int steps, bool symmetric) {
  BatchArguments arguments{};
  arguments.M = M;
  arguments.N = N;
  arguments.steps = steps;
  arguments.tiles_m = static_cast<int>(ceil_divide(M, 2 * tile_m));
  arguments.tiles_n = static_cast<int>(ceil_divide(N, tile_n));
  arguments.matrices = matrices;
  arguments.symmetric = symmetric;
  const int resident = resident_clusters(context, kernel, shared_bytes);
  const int64_t units = static_cast<int64_t>(matrices) * arguments.tiles();
  arguments.clusters = units > resident ? resident : static_cast<int>(units);
  arguments.streams = static_cast<int64_t>(matrices) * M * N * static_cast<int64_t>(sizeof(bf16)) > (64ll << 20);
  launch_overlapping(context, kernel, arguments.clusters * 2, product_threads, shared_bytes, maps, arguments, outputs);
}

// out [M,R,R] = alpha in in^T, plus beta in with COMBINES; in [M,R,K].
template <bool COMBINES>
void launch_symmetric(const CudaContext &context, bf16 *out, const bf16 *in, int M, int R, int K, float alpha,
                      float beta) {
  ProductMaps maps{};
  maps.a = maps.b = matrices_map(in, K, R, M, tile_m);
  maps.out = matrices_map(out, R, R, M, 16);
  ProductOutputs outputs;
  outputs.residual = in;
  outputs.alpha = alpha;
  outputs.beta = beta;
  launch_batch(context, symmetric_kernel<COMBINES>, SymmetricRing::shared_bytes, maps, outputs, M, R, R, 2 * tile_m,
               static_cast<int>(ceil_divide(K, step_k)), true);
}

// out = a in + polynomial in, with a polynomial [M,R,R] for each matrix of in [M,R,K].
void launch_update(const CudaContext &context, bf16 *out, const bf16 *polynomial, const bf16 *in, int M, int R, int K,
                   float a) {
  constexpr Epilogue epilogue = Epilogue::combination;
  ProductMaps maps{};
  maps.a = matrices_map(polynomial, R, R, M, tile_m);
  maps.b = matrices_map(in, K, R, M, step_k / 2);
  maps.out = matrices_map(out, K, R, M, 16);
  maps.other = matrices_map(in, K, R, M, 16);
  ProductOutputs outputs;
  outputs.beta = a;
  const int steps = static_cast<int>(ceil_divide(R, step_k));
  launch_batch(context, interleaved_kernel<true, false, epilogue, BatchArguments>,
               InterleavedRing<true, false, epilogue>::shared_bytes, maps, outputs, M, R, K, interleaved_tile_n,
               std::max(steps, least_steps<bf16>), false);
}

}  // namespace

void sm90::newton_schulz(const CudaContext &context, bf16 *out, const bf16 *in, int M, int R, int K, float a, float b,
                         float c, bf16 *scratch) {
  bf16 *gram = scratch, *polynomial = scratch + static_cast<int64_t>(M) * R * R;
  launch_symmetric<false>(context, gram, in, M, R, K, 1, 0);
  launch_symmetric<true>(context, polynomial, gram, M, R, R, c, b);
  launch_update(context, out, polynomial, in, M, R, K, a);
}

}  // namespace gpt2
