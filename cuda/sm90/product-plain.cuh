// Matmuls in tiles of 128 x 256 or 128 x 208; each tile is finished after it is multiplied.
//
// The two multiplying warpgroups run independently. Finishing a tile stops one of them for 1,900 to 2,800 cycles, which
// is little beside a matmul with k of 2,000 or more. Tiles of 256 columns load the least from L2 and shared memory per
// multiplication: 765 TFLOP/s at k = 3072 on an H100, where tiles of 192 columns gave 727.
#pragma once

#include "weight-gradient.cuh"

namespace gpt2::sm90 {

// Results of 8192 x 1600 take four rounds on 66 clusters in 7 wide or 8 narrow tiles a row; narrow rounds are shorter.
constexpr int plain_tile_n = 256, narrow_plain_tile_n = 208;

// Staging buffers of a warp. E is `bias` (with a NULL bias), `residual`, `scaled`, or `gradient` (no staging).
template <Epilogue E>
constexpr int plain_buffers = E == Epilogue::gradient ? 0 : 2;
// With `gradient`, the staging memory holds ones: a times the ones is the sum of a over k.
template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, int TILE_N = plain_tile_n, bool WEIGHS = false>
using PlainRing = ProductRing<A_K_MAJOR, B_K_MAJOR, TILE_N,
                              E == Epilogue::gradient ? eight_lines : 8 * plain_buffers<E> * buffer_bytes, bf16,
                              WEIGHS ? AfterB::weights : AfterB::nothing>;

// The bias and residual that a lane adds to its elements of a tile, in pairs of adjacent columns, as in the
// accumulators. The residual is loaded while the tile's last steps are multiplied, into registers, because shared
// memory is full.
template <int TILE_N>
struct Residual {
  uint32_t of_rows[2][TILE_N / 8], bias[2][8];  // bias: of the current 64 columns and of the next 64

  __device__ __forceinline__ void load_bias(const bf16 *from, int n0, int N, int i) {
    if (!from) return;
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const int column = (i * 8 + j) * 8;
      if (column < TILE_N && n0 + column < N) {
        bias[i % 2][j] = *reinterpret_cast<const uint32_t *>(from + n0 + column + threadIdx.x % 4 * 2);
      }
    }
  }
  template <bool CHOSEN = false>
  __device__ __forceinline__ void load_rows(const ProductOutputs &outputs, int row0, int n0, int M, int N) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = row0 + half * 8 + static_cast<int>(threadIdx.x % 32) / 4;
      int from = row;
      if constexpr (CHOSEN) {
        // For a target outside of [0, columns) any row will do, because the factor is then 0 (for -1) or NaN.
        const int target = row < M ? outputs.targets[row] : 0;
        from = target >= 0 && target < outputs.columns ? target : 0;
      }
      const bf16 *line = outputs.residual + static_cast<int64_t>(from) * N + n0 + threadIdx.x % 4 * 2;
#pragma unroll
      for (int j = 0; j < TILE_N / 8; j++) {
        if (row < M && n0 + j * 8 < N) of_rows[half][j] = *reinterpret_cast<const uint32_t *>(line + j * 8);
      }
    }
    load_bias(outputs.bias, n0, N, 0);
  }
  __device__ __forceinline__ float2 add(float2 values, int half, int group) const {
    const float2 first = unpack_bf16(bias[group / 8 % 2][group % 8]), second = unpack_bf16(of_rows[half][group]);
    return make_float2(values.x + first.x + second.x, values.y + first.y + second.y);
  }
  // values + factor * residual; there is no bias.
  __device__ __forceinline__ float2 add_scaled(float2 values, int half, int group, float factor) const {
    const float2 row = unpack_bf16(of_rows[half][group]);
    return make_float2(fmaf(row.x, factor, values.x), fmaf(row.y, factor, values.y));
  }
};

// Stores a warp's 16 rows of a tile, 64 columns at a time, each time through the next of BUFFERS buffers. prepare(i) is
// called before the i-th 64 columns. finished(pair, half, group) turns the sums of two adjacent columns into results.
template <int BUFFERS, int COUNT, class Maps, class Prepare, class Finished>
__device__ __forceinline__ void store_rows(const Maps &maps, uint32_t staging, int lane, int row0, int n0,
                                           uint64_t policy, const float (&sums)[COUNT], const Prepare &prepare,
                                           const Finished &finished) {
  constexpr int columns = COUNT * 2;
#pragma unroll
  for (int i = 0; i < (columns + 63) / 64; i++) {
    const uint32_t buffer = staging + i % BUFFERS * buffer_bytes;
    prepare(i);
    if (lane == 0) wait_stores_read<BUFFERS - 1>();
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      uint32_t packed[4] = {};
#pragma unroll
      for (int p = 0; p < 4; p++) {
        const int group = i * 8 + j + p / 2, at = group * 4 + p % 2 * 2;
        if (group >= columns / 8) continue;
        const float2 pair = finished(make_float2(sums[at], sums[at + 1]), p % 2, group);
        packed[p] = pack_bf16(pair.x, pair.y);
      }
      if (i * 8 + j < columns / 8) store_matrices(matrices_at(buffer, j), packed);
    }
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) {
      store_box(i < columns / 64 ? maps.out : maps.out_tail, n0 + i * 64, row0, buffer, policy);
      commit_stores();
    }
  }
}

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, int TILE_N = plain_tile_n, bool WEIGHS = false>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(product_threads, 1)
    plain_kernel(const __grid_constant__ ProductMaps maps, const ProductArguments arguments,
                 const ProductOutputs outputs) {
  using Ring = PlainRing<A_K_MAJOR, B_K_MAJOR, E, TILE_N, WEIGHS>;
  constexpr int buffers = plain_buffers<E>;
  extern __shared__ unsigned char memory[];
  const Ring ring(memory);
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  if constexpr (E == Epilogue::gradient) store_ones<bf16>(ring.staging);
  const auto prepare = [&] {
    if (E != Epilogue::gradient) prefetch_map(maps.out);
    if (WEIGHS) prefetch_map(maps.other);
  };
  const int warpgroup = ring.begin(maps, prepare);
  if (warpgroup == 0) {
    ring.produce(arguments, maps);
  } else {
    const int consumer = ring.start_consumer(warpgroup);
    const uint32_t staging = ring.staging + (consumer * 4 + warp) * (buffers * buffer_bytes);
    // With a residual, no registers are left to keep the store policy in: it is set after the matmul.
    uint64_t policy = 0;
    if constexpr (E != Epilogue::residual) policy = store_policy(arguments.streams);
    Unit unit;
    RingPosition<Ring::stages> at;
    float result[TILE_N / 2];
    for (int index = 0; unit_of(arguments, ring.cluster, index, unit); index++) {
      const int row0 = ring.first_row(unit) + consumer * 64 + warp * 16, n0 = unit.n * TILE_N;
      uint32_t previous = Ring::no_stage;
      float sums[4] = {};
      std::conditional_t<E == Epilogue::residual, Residual<TILE_N>, int> residual{};
      int step = 0;
      if constexpr (E == Epilogue::residual) {
        for (; step < unit.steps - 2; step++) ring.multiply(result, consumer, at, previous, step > 0);
        residual.load_rows(outputs, row0, n0, arguments.M, arguments.N);
      }
      for (; step < unit.steps; step++) {
        // Tiles side by side read the same rows of a, and divide its sums over k: each tile adds every tiles_n-th step.
        if (E == Epilogue::gradient && outputs.sums && (unit.first_step + step) % arguments.tiles_n == unit.n) {
          ring.template multiply<false, true>(result, consumer, at, previous, step > 0, &sums, ring.staging);
        } else {
          ring.multiply(result, consumer, at, previous, step > 0);
        }
      }
      wgmma_wait<0>();
      hold(result);
      hold(sums);
      ring.release(previous);

      if constexpr (E == Epilogue::gradient) {
        // With WEIGHS a row's factor is the sum of two bf16 numbers, and each has a column of `sums`.
        const float of_rows[2] = {WEIGHS ? sums[0] + sums[1] : sums[0], WEIGHS ? sums[2] + sums[3] : sums[2]};
        store_gradient<TILE_N>(arguments, outputs, unit, row0, result, of_rows);
      } else {
        float scale[2] = {1, 1};
        if constexpr (E == Epilogue::scaled) {
#pragma unroll
          for (int half = 0; half < 2; half++) {
            const int row = row0 + half * 8 + lane / 4;
            if (row < arguments.M) scale[half] = outputs.rows[row];
          }
        }
        if constexpr (E == Epilogue::residual) policy = store_policy(arguments.streams);
        const auto prepare = [&](int i) {
          if constexpr (E == Epilogue::residual) residual.load_bias(outputs.bias, n0, arguments.N, i + 1);
        };
        const auto finished = [&](float2 pair, int half, int group) {
          if constexpr (E == Epilogue::scaled) return make_float2(pair.x * scale[half], pair.y * scale[half]);
          if constexpr (E == Epilogue::residual) return residual.add(pair, half, group);
          return pair;
        };
        store_rows<buffers>(maps, staging, lane, row0, n0, policy, result, prepare, finished);
      }
    }
  }
  ring.end();
}

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, int TILE_N = plain_tile_n, bool WEIGHS = false>
ProductArguments launch_plain(const CudaContext &context, const Product &product, const ProductOutputs &outputs,
                              const bf16 *out, const Split &split, const CUtensorMap &weights = {}) {
  ProductMaps maps{};
  maps.other = weights;
  return launch_product<A_K_MAJOR, B_K_MAJOR, TILE_N>(context, plain_kernel<A_K_MAJOR, B_K_MAJOR, E, TILE_N, WEIGHS>,
                                                      PlainRing<A_K_MAJOR, B_K_MAJOR, E, TILE_N, WEIGHS>::shared_bytes,
                                                      product, outputs, out, maps, split);
}

// Launches with the tile width that takes less time.
template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E>
void launch_plain_of_any_width(const CudaContext &context, const Product &product, const ProductOutputs &outputs,
                               const bf16 *out) {
  const int clusters = resident_clusters(context, plain_kernel<A_K_MAJOR, B_K_MAJOR, E, plain_tile_n>,
                                         PlainRing<A_K_MAJOR, B_K_MAJOR, E, plain_tile_n>::shared_bytes);
  if (relative_time(product, narrow_plain_tile_n, clusters, 16) < relative_time(product, plain_tile_n, clusters, 16)) {
    launch_plain<A_K_MAJOR, B_K_MAJOR, E, narrow_plain_tile_n>(context, product, outputs, out, unsplit(product));
  } else {
    launch_plain<A_K_MAJOR, B_K_MAJOR, E>(context, product, outputs, out, unsplit(product));
  }
}

}  // namespace gpt2::sm90
