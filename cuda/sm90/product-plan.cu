// How plain products are dealt to clusters (Split), and the sum of what was cut into parts.
#include "product-plain.cuh"

namespace gpt2 {
namespace sm90 {

namespace {

// The least time by a model, in microseconds on an H100: 0.65 for a step of a cluster's tile, as much as 3 steps for a unit's
// begin and end, 3.5 TB/s for partial sums written and read, 4 for the kernel that adds them.
class Planner {
 public:
  Planner(int64_t tiles, int64_t steps, int clusters) : tiles_(tiles), steps_(steps), clusters_(clusters) {}

  Split choose() {
    for (int64_t rounds = 0; rounds * clusters_ <= tiles_; rounds++) {
      const int64_t left = tiles_ - rounds * clusters_;
      // Whole rounds are worth while only as long as the rest is less than two of them.
      if (left >= 2 * clusters_) continue;
      if (left == 0) {
        consider(rounds, 0, 0, 0, 1);
        continue;
      }
      for (int64_t narrow = 1; narrow <= 32; narrow++) consider(rounds, left, 0, 0, narrow);
      for (int64_t wide = 1; wide * left <= clusters_; wide++) {
        consider(rounds, left, wide, ceil_divide(steps_, wide), 0);
        for (int64_t narrow = 1; narrow <= 8 && wide * left < clusters_; narrow++) {
          // Wide parts as long as what a left-over cluster gets: turns * rest / narrow.
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
    // Every part has a step to do.
    if (narrow == 0 ? rest > 0 || (wide - 1) * wide_steps >= steps_ : rest < narrow || clusters < 1) return;
    const int64_t narrow_steps = narrow ? ceil_divide(rest, narrow) : 0;
    if (narrow && (narrow - 1) * narrow_steps >= rest) return;
    const auto units = [](int64_t count, int64_t steps) { return static_cast<double>(count * (steps + 3)) * 0.65; };
    const double wide_time = wide ? units(1, wide_steps) : 0;
    const double narrow_time = narrow ? units(ceil_divide(tiles * narrow, clusters), narrow_steps) : 0;
    const int64_t parts = wide + narrow;
    const double bytes = static_cast<double>(parts * tiles) * part_floats * sizeof(float) * 2;
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
  Split best_{};
};

// out (=|+=) scale of the row * sum over parts of a tile of 256 x 256; a block takes 4 rows, a thread 4 neighbours.
template <class T>
__global__ void __launch_bounds__(256)
    add_tiles_kernel(T *out, const float *parts, const ProductArguments arguments, int tiles, const float *rows,
                     bool accumulate) {
  wait_for_previous_kernel();
  constexpr int blocks_a_tile = 2 * tile_m / 4;
  const int tile = blockIdx.x / blocks_a_tile;
  const int row = blockIdx.x % blocks_a_tile * 4 + threadIdx.x / 64, column = threadIdx.x % 64 * 4;
  int m, n;
  place_of(arguments, arguments.split.rounds * arguments.clusters + tile, m, n);
  const int to_row = m * 2 * tile_m + row, to_column = n * plain_tile_n + column;
  if (to_row >= arguments.M || to_column >= arguments.N) return;
  const float *from = parts + static_cast<int64_t>(tile) * part_floats + row * plain_tile_n + column;
  float sum[4] = {};
#pragma unroll 4
  for (int part = 0; part < arguments.split.parts(); part++) {
    float values[4];
    load(values, from + static_cast<int64_t>(part) * tiles * part_floats);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += values[i];
  }
  const float scale = rows ? rows[to_row] : 1.0f;
#pragma unroll
  for (int i = 0; i < 4; i++) sum[i] *= scale;
  T *to = out + static_cast<int64_t>(to_row) * arguments.N + to_column;
  if (accumulate) {
    float old[4];
    load(old, static_cast<const T *>(to));
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += old[i];
  }
  store(to, sum);
}

}  // namespace

Split plan_split(int64_t tiles, int64_t steps, int clusters) { return Planner(tiles, steps, clusters).choose(); }

void add_tiles(const CudaContext &context, void *out, bool is_bf16, const float *parts, const ProductArguments &arguments,
               int64_t tiles, const float *rows, bool accumulate) {
  const int64_t blocks = tiles * (2 * tile_m / 4);
  const int count = static_cast<int>(tiles);
  if (is_bf16) {
    launch_overlapping(context, add_tiles_kernel<bf16>, blocks, 256, 0, static_cast<bf16 *>(out), parts, arguments, count,
                       rows, accumulate);
  } else {
    launch_overlapping(context, add_tiles_kernel<float>, blocks, 256, 0, static_cast<float *>(out), parts, arguments, count,
                       rows, accumulate);
  }
}

}  // namespace sm90
}  // namespace gpt2
