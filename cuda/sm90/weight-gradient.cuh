// Helpers of the weight gradients in bf16 and in FP8: matmuls with k the number of tokens. If the tiles do not divide
// evenly over the clusters, the k of some tiles is split (Split). The partial sums go to scratch in fp32 and are added
// in order: no atomics, the same bits every time. The column sums of dout are matmuls with 8 columns of ones. The tiles
// of a row divide the steps of these matmuls among themselves.
#pragma once

#include "../common/partial-sums.cuh"
#include "product.cuh"

namespace gpt2::sm90 {

// The cost of a cluster's tile of a gradient, measured on an H100.
struct TileCosts {
  double step;    // microseconds that a step takes
  int more;       // a unit's begin and end take as long as this many steps
  int64_t bytes;  // of the tile's sums in fp32
};

// Finds the split with the least estimated time. The estimate has three numbers from an H100: the tiles' costs, 3.5
// TB/s for partial sums written and read, and 4 microseconds for the kernel that adds the sums.
class Planner {
 public:
  Planner(int64_t tiles, int64_t steps, int clusters, const TileCosts &costs)
      : tiles_(tiles), steps_(steps), clusters_(clusters), costs_(costs) {}

  Split choose() {
    for (int64_t rounds = 0; rounds * clusters_ <= tiles_; rounds++) {
      const int64_t left = tiles_ - rounds * clusters_;
      // In a round each cluster computes a whole tile. The best split leaves fewer tiles than two rounds compute.
      if (left >= 2 * clusters_) continue;
      if (left == 0) {
        consider(rounds, 0, 0, 0, 1);
        continue;
      }
      for (int64_t narrow = 1; narrow <= 32; narrow++) consider(rounds, left, 0, 0, narrow);
      for (int64_t wide = 1; wide * left <= clusters_; wide++) {
        consider(rounds, left, wide, ceil_divide(steps_, wide), 0);
        for (int64_t narrow = 1; narrow <= 8 && wide * left < clusters_; narrow++) {
          // A wide part should take as many steps as a cluster's `turns` narrow parts: turns * rest / narrow.
          const int64_t turns = ceil_divide(left * narrow, clusters_ - wide * left);
          const int64_t balanced = turns * steps_ / (narrow + turns * wide);
          for (int64_t wide_steps = balanced > 1 ? balanced - 1 : 1; wide_steps <= balanced + turns * 3; wide_steps++) {
            consider(rounds, left, wide, wide_steps, narrow);
          }
        }
      }
    }
    return best_;
  }

 private:
  void consider(int64_t rounds, int64_t tiles, int64_t wide, int64_t wide_steps, int64_t narrow) {
    const int64_t rest = steps_ - wide * wide_steps, clusters = clusters_ - wide * tiles;
    // Every part needs at least one step.
    if (narrow == 0 ? rest > 0 || (wide - 1) * wide_steps >= steps_ : rest < narrow || clusters < 1) return;
    const int64_t narrow_steps = narrow ? ceil_divide(rest, narrow) : 0;
    if (narrow && (narrow - 1) * narrow_steps >= rest) return;
    const auto units = [&](int64_t count, int64_t steps) {
      return static_cast<double>(count * (steps + costs_.more)) * costs_.step;
    };
    const double wide_time = wide ? units(1, wide_steps) : 0;
    const double narrow_time = narrow ? units(ceil_divide(tiles * narrow, clusters), narrow_steps) : 0;
    const int64_t parts = wide + narrow;
    const double bytes = static_cast<double>(parts * tiles * costs_.bytes) * 2;
    const double adding = parts > 1 ? bytes / 3.5e6 + 4 : 0;
    const double time = units(rounds, steps_) + (wide_time > narrow_time ? wide_time : narrow_time) + adding;
    if (least_ >= 0 && time >= least_) return;
    least_ = time;
    best_ = {static_cast<int>(rounds), static_cast<int>(wide), static_cast<int>(wide_steps), static_cast<int>(narrow),
             static_cast<int>(narrow_steps)};
  }

  const int64_t tiles_, steps_;
  const int clusters_;
  const TileCosts costs_;
  double least_ = -1;
  Split best_{};
};

// Fills 8 lines with ones; called by all threads before ProductRing::begin(), whose barrier lets wgmma read them.
template <class Element>
__device__ __forceinline__ void store_ones(uint32_t shared) {
  constexpr uint32_t word = is_fp8<Element> ? 0x38383838 : 0x3f803f80;  // four of E4M3 or two of bf16
  if (threadIdx.x < eight_lines / 4) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + threadIdx.x * 4), "r"(word) : "memory");
    fence_async_proxy();
  }
}

template <int TILE_N>
constexpr int part_floats = 2 * tile_m * TILE_N;  // floats of a part of a cluster's split tile

// Stores a warp's 16 rows of a tile (or part), and `sums`: a summed over k, for the lane's row and the row 8 below.
template <int TILE_N>
__device__ __forceinline__ void store_gradient(const ProductArguments &arguments, const ProductOutputs &outputs,
                                               const Unit &unit, int row0, const float (&result)[TILE_N / 2],
                                               const float (&sums)[2]) {
  const int lane = threadIdx.x % 32, n0 = unit.n * TILE_N;
  const int parts = arguments.split.parts();
  if (outputs.sums && lane % 4 == 0) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = row0 + half * 8 + lane / 4;
      // An unsplit tile writes zeros as the sums of all further parts, because every part is added later.
      for (int part = unit.part < 0 ? 0 : unit.part; row < arguments.M && part < parts; part++) {
        const int64_t line = static_cast<int64_t>(part) * arguments.tiles_n + unit.n;
        outputs.sums[line * arguments.M + row] = unit.part >= 0 || part == 0 ? sums[half] : 0.0f;
        if (unit.part >= 0) break;
      }
    }
  }
  const auto store_rows = [&](auto *first, int64_t stride, int rows, int columns, bool accumulate) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = half * 8 + lane / 4;
      if (row >= rows) continue;
      auto *line = first + row * stride;
#pragma unroll
      for (int j = 0; j < TILE_N / 8; j++) {
        const int column = j * 8 + lane % 4 * 2;
        if (column >= columns) continue;
        float values[2] = {result[j * 4 + half * 2], result[j * 4 + half * 2 + 1]};
        store_or_add(line + column, values, accumulate);
      }
    }
  };
  if (unit.part >= 0) {
    // A quad of lanes stores 32 contiguous bytes of fp32.
    const int tiles = arguments.tiles_m * arguments.tiles_n - arguments.split.rounds * arguments.clusters;
    const int row = row0 - unit.m * 2 * tile_m;
    float *tile = outputs.parts + (static_cast<int64_t>(unit.part) * tiles + unit.tile) * part_floats<TILE_N>;
    store_rows(tile + row * TILE_N, TILE_N, 16, TILE_N, false);
  } else {
    const int64_t first = static_cast<int64_t>(row0) * arguments.N + n0;
    const int rows = arguments.M - row0, columns = arguments.N - n0;
    if (outputs.is_bf16) {
      store_rows(static_cast<bf16 *>(outputs.gradient) + first, arguments.N, rows, columns, outputs.accumulate);
    } else {
      store_rows(static_cast<float *>(outputs.gradient) + first, arguments.N, rows, columns, outputs.accumulate);
    }
  }
}

// gradient (=|+=) the sum of the parts of each split tile of 256 x TILE_N; a block takes 4 rows, a thread 4 columns.
template <int TILE_N, class G>
__global__ void __launch_bounds__(TILE_N)
    add_tiles_kernel(G *gradient, const float *parts, const ProductArguments arguments, int tiles, bool accumulate) {
  wait_for_previous_kernel();
  constexpr int blocks_a_tile = 2 * tile_m / 4, lanes = TILE_N / 4;
  const int tile = blockIdx.x / blocks_a_tile;
  const int row = blockIdx.x % blocks_a_tile * 4 + threadIdx.x / lanes, column = threadIdx.x % lanes * 4;
  int m, n;
  place_of(arguments.split.rounds * arguments.clusters + tile, arguments.tiles_m, arguments.tiles_n, m, n);
  const int to_row = m * 2 * tile_m + row, to_column = n * TILE_N + column;
  if (to_row >= arguments.M || to_column >= arguments.N) return;
  const float *from = parts + static_cast<int64_t>(tile) * part_floats<TILE_N> + row * TILE_N + column;
  float sum[4] = {};
#pragma unroll 4
  for (int part = 0; part < arguments.split.parts(); part++) {
    float values[4];
    load(values, from + static_cast<int64_t>(part) * tiles * part_floats<TILE_N>);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += values[i];
  }
  store_or_add(gradient + static_cast<int64_t>(to_row) * arguments.N + to_column, sum, accumulate);
}

// The split of a weight gradient, and its scratch.
struct GradientPlan {
  Split split;
  int64_t tiles;  // the number of split tiles
  int64_t sums;   // rows of partial column sums

  GradientPlan(const Split &split, int64_t all_tiles, int64_t tiles_n, int clusters)
      : split(split),
        tiles(split.parts() > 1 ? all_tiles - split.rounds * clusters : 0),
        sums(tiles_n * split.parts()) {}

  // Takes scratch for the partial column sums of `rows` rows of the gradient, then for the parts of split tiles.
  template <int TILE_N>
  void take(Scratch &scratch, int64_t rows, ProductOutputs &outputs) const {
    outputs.sums = scratch.take<float>(sums * rows);
    outputs.parts = scratch.take<float>(split.parts() * tiles * part_floats<TILE_N>);
  }
};

// dweight (=|+=) the matmul that `launch` starts; dbias (=|+=) operand a summed over k, unless dbias is NULL.
template <int TILE_N, class Launch>
void sum_gradient(const CudaContext &context, const GradientPlan &plan, int rows, void *dweight, float *dbias,
                  bool accumulate, void *memory, Launch launch) {
  Scratch scratch(memory);
  ProductOutputs outputs;
  plan.take<TILE_N>(scratch, rows, outputs);
  float *sums = outputs.sums;
  if (!dbias) outputs.sums = nullptr;
  with_gradient_type(context, [&](auto gradient) {
    using G = decltype(gradient);
    outputs.gradient = dweight;
    outputs.is_bf16 = sizeof(G) == 2;
    outputs.accumulate = accumulate;
    const ProductArguments arguments = launch(outputs);
    if (plan.tiles > 0) {
      launch_overlapping(context, add_tiles_kernel<TILE_N, G>, plan.tiles * (2 * tile_m / 4), TILE_N, 0,
                         static_cast<G *>(dweight), outputs.parts, arguments, static_cast<int>(plan.tiles), accumulate);
    }
  });
  if (dbias) launch_add_partials(context, dbias, nullptr, sums, static_cast<int>(plan.sums), rows, accumulate);
}

}  // namespace gpt2::sm90
