// dweight = dout^T * in and the column sums of dout: both operands MN-major, k as long as the batch has tokens.
//
// Where the tiles do not divide evenly over the SMs, the k of some is split (Split); parts go to scratch in fp32 and
// are added in order: no atomics, the same bits every time. The column sums of dout are products with ones, of 8
// columns; each block does them for part of its steps. The classifier's are weighted, with a factor for each row.
#include "../common/partial-sums.cuh"
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

// Finds the split with the least time by a model, in microseconds on an H100: 0.65 for a step of a cluster's tile, the
// time of 3 steps for a unit's begin and end, 3.5 TB/s for partial sums written and read, 4 for the kernel that adds
// them.
class Planner {
 public:
  Planner(int64_t tiles, int64_t steps, int clusters) : tiles_(tiles), steps_(steps), clusters_(clusters) {}

  sm90::Split choose() {
    for (int64_t rounds = 0; rounds * clusters_ <= tiles_; rounds++) {
      const int64_t left = tiles_ - rounds * clusters_;
      // Unsplit rounds pay off until the remaining tiles are fewer than two rounds.
      if (left >= 2 * clusters_) continue;
      if (left == 0) {
        consider(rounds, 0, 0, 0, 1);
        continue;
      }
      for (int64_t narrow = 1; narrow <= 32; narrow++) consider(rounds, left, 0, 0, narrow);
      for (int64_t wide = 1; wide * left <= clusters_; wide++) {
        consider(rounds, left, wide, ceil_divide(steps_, wide), 0);
        for (int64_t narrow = 1; narrow <= 8 && wide * left < clusters_; narrow++) {
          // A wide part should take as long as the narrow parts of a remaining cluster: turns * rest / narrow.
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
    const auto units = [](int64_t count, int64_t steps) { return static_cast<double>(count * (steps + 3)) * 0.65; };
    const double wide_time = wide ? units(1, wide_steps) : 0;
    const double narrow_time = narrow ? units(ceil_divide(tiles * narrow, clusters), narrow_steps) : 0;
    const int64_t parts = wide + narrow;
    const double bytes = static_cast<double>(parts * tiles) * sm90::part_floats * sizeof(float) * 2;
    const double adding = parts > 1 ? bytes / 3.5e6 + 4 : 0;
    const double time = units(rounds, steps_) + (wide_time > narrow_time ? wide_time : narrow_time) + adding;
    if (least_ >= 0 && time >= least_) return;
    least_ = time;
    best_ = {static_cast<int>(rounds), static_cast<int>(wide), static_cast<int>(wide_steps), static_cast<int>(narrow),
             static_cast<int>(narrow_steps)};
  }

  const int64_t tiles_, steps_;
  const int clusters_;
  double least_ = -1;
  sm90::Split best_{};
};

struct Plan {
  bool stores_bf16;  // no tile is split and the gradient is bf16: TMA stores it, and adds the old one as a residual
  sm90::Split split;
  int64_t tiles;  // that are split
  int64_t sums;   // rows of partial column sums
};

Plan plan_of(const CudaContext &context, int N, int C, int O, bool has_bias) {
  using Ring = sm90::PlainRing<false, false, Epilogue::gradient>;
  const int clusters =
      sm90::resident_clusters(context, sm90::plain_kernel<false, false, Epilogue::gradient>, Ring::shared_bytes);
  const int64_t tiles_n = ceil_divide(C, sm90::plain_tile_n), tiles = ceil_divide(O, 2 * sm90::tile_m) * tiles_n;
  const sm90::Split split = Planner(tiles, ceil_divide(N, sm90::step_k), clusters).choose();
  const bool stores_bf16 = split.parts() == 1 && !context.accumulates && !has_bias;
  return {stores_bf16, split, split.parts() > 1 ? tiles - split.rounds * clusters : 0, tiles_n * split.parts()};
}

// gradient (=|+=) the sum over parts of a tile of 256 x 256; a block takes 4 rows, a thread 4 adjacent columns.
template <class G>
__global__ void __launch_bounds__(256)
    add_tiles_kernel(G *gradient, const float *parts, const sm90::ProductArguments arguments, int tiles,
                     bool accumulate) {
  wait_for_previous_kernel();
  constexpr int blocks_a_tile = 2 * sm90::tile_m / 4;
  const int tile = blockIdx.x / blocks_a_tile;
  const int row = blockIdx.x % blocks_a_tile * 4 + threadIdx.x / 64, column = threadIdx.x % 64 * 4;
  int m, n;
  place_of(arguments.split.rounds * arguments.clusters + tile, arguments.tiles_m, arguments.tiles_n, m, n);
  const int to_row = m * 2 * sm90::tile_m + row, to_column = n * sm90::plain_tile_n + column;
  if (to_row >= arguments.M || to_column >= arguments.N) return;
  const float *from = parts + static_cast<int64_t>(tile) * sm90::part_floats + row * sm90::plain_tile_n + column;
  float sum[4] = {};
#pragma unroll 4
  for (int part = 0; part < arguments.split.parts(); part++) {
    float values[4];
    load(values, from + static_cast<int64_t>(part) * tiles * sm90::part_floats);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += values[i];
  }
  G *to = gradient + static_cast<int64_t>(to_row) * arguments.N + to_column;
  if (accumulate) {
    float old[4];
    load(old, static_cast<const G *>(to));
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += old[i];
  }
  store(to, sum);
}

}  // namespace

int64_t sm90::matmul_backward_weight_scratch(const CudaContext &context, int N, int C, int O) {
  const Plan plan = plan_of(context, N, C, O, true);
  Scratch scratch;
  scratch.take<float>(plan.sums * O);
  scratch.take<float>(plan.split.parts() * plan.tiles * part_floats);
  return scratch.bytes();
}

void sm90::matmul_backward_weight(const CudaContext &context, const Product &product, void *dweight, float *dbias,
                                  bool accumulate, void *memory) {
  matmul_backward_weight(context, product, dweight, dbias, nullptr, accumulate, memory);
}

void sm90::matmul_backward_weight(const CudaContext &context, const Product &product, void *dweight, float *dbias,
                                  const bf16 *weights, bool accumulate, void *memory) {
  const Plan plan = plan_of(context, product.K, product.N, product.M, dbias != nullptr);
  Scratch scratch(memory);
  float *sums = scratch.take<float>(plan.sums * product.M);
  ProductOutputs outputs;
  if (plan.stores_bf16) {
    auto *result = static_cast<bf16 *>(dweight);
    if (accumulate) {
      launch_interleaved<false, false, Epilogue::residual>(context, product, outputs, result, result);
    } else {
      launch_plain<false, false, Epilogue::bias>(context, product, outputs, result, unsplit(product));
    }
    return;
  }
  with_gradient_type(context, [&](auto gradient) {
    using G = decltype(gradient);
    outputs.gradient = dweight;
    outputs.is_bf16 = sizeof(G) == 2;
    outputs.accumulate = accumulate;
    outputs.sums = dbias ? sums : nullptr;
    outputs.parts = scratch.take<float>(plan.split.parts() * plan.tiles * part_floats);
    const auto launch = [&](auto weighs, const CUtensorMap &map) {
      return launch_plain<false, false, Epilogue::gradient, plain_tile_n, weighs>(context, product, outputs, nullptr,
                                                                                  plan.split, map);
    };
    const ProductArguments arguments =
        dbias && weights
            ? launch(std::true_type{}, matrix_map(context, weights, product.K, 2, weights_line(product.K), 8))
            : launch(std::false_type{}, CUtensorMap{});
    if (plan.tiles > 0) {
      launch_overlapping(context, add_tiles_kernel<G>, plan.tiles * (2 * tile_m / 4), 256, 0, static_cast<G *>(dweight),
                         outputs.parts, arguments, static_cast<int>(plan.tiles), accumulate);
    }
  });
  if (dbias) launch_add_partials(context, dbias, nullptr, sums, static_cast<int>(plan.sums), product.M, accumulate);
}

}  // namespace gpt2
