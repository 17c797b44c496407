// The schedule of the matmul kernels: how tiles and steps of k are assigned to clusters.
#pragma once

#include "../common/fp8.cuh"
#include "../matmul.cuh"
#include "hopper.cuh"

namespace gpt2::sm90 {

constexpr int tile_m = 128;  // rows of a block's tile; a cluster's two tiles have 256

// A step of k is a line of 128 bytes: 64 bf16 or 128 FP8. With Element E5M2, a is E5M2 and b is E4M3.
using e4m3 = __nv_fp8_e4m3;
using e5m2 = __nv_fp8_e5m2;
template <class Element>
constexpr bool is_e5m2 = std::is_same_v<Element, e5m2>;
template <class Element>
constexpr bool is_fp8 = std::is_same_v<Element, e4m3> || is_e5m2<Element>;
template <class Element>
constexpr int step_k_of = 128 / static_cast<int>(sizeof(Element));
constexpr int step_k = step_k_of<bf16>;

// Steps of k after which partial FP8 sums are added to the tile's fp32 sums (promotion, fp8-matmul.cu).
constexpr int promoted_steps = GPT2_FP8_BLOCK / step_k_of<e4m3>;

// The division of tiles and steps of k among clusters. All clusters should be busy to the end, and concurrent clusters
// should be at the same k, so that they find each other's operands in L2.
//
// Each cluster first computes `rounds` tiles unsplit: over all of k. The remaining tiles are fewer than twice the
// clusters. Their k is split into parts that are summed separately. A remaining tile has `wide` parts of `wide_steps`
// steps, one cluster for each. The other clusters take the rest of k, in `narrow` parts of `narrow_steps`, tile after
// tile. With one part (`narrow` is 1) the remaining tiles are unsplit too.
struct Split {
  int rounds, wide, wide_steps, narrow, narrow_steps;
  __host__ __device__ int parts() const { return wide + narrow; }
};

// The index of a tile's matrix in a batch of matmuls. Without a batch the struct is empty.
template <class Matrix>
struct MatrixOfTile {
  Matrix index;
  __device__ __forceinline__ Matrix matrix() const { return index; }
  __device__ __forceinline__ void set_matrix(Matrix value) { index = value; }
};
template <>
struct MatrixOfTile<OnlyMatrix> {
  __device__ __forceinline__ static OnlyMatrix matrix() { return {}; }
  __device__ __forceinline__ static void set_matrix(OnlyMatrix) {}
};

template <class Matrix>
struct UnitOf : MatrixOfTile<Matrix> {
  int m, n;  // the cluster's tile
  int first_step, steps;
  int part;  // -1: the tile is unsplit
  int tile;  // index among the split tiles
};

using Unit = UnitOf<OnlyMatrix>;
using BatchUnit = UnitOf<int>;

struct ProductMaps;
struct Fp8Maps;

struct ProductArguments {
  using Matrix = OnlyMatrix;
  using Element = bf16;
  using Maps = ProductMaps;
  int M, N, steps;
  int tiles_m, tiles_n;  // tiles of clusters: 256 rows x TILE_N columns
  int clusters;
  bool streams;  // whether the result is far larger than L2
  Split split;
};

// Sets `unit` to the index-th unit of work of a cluster; false if the cluster has no more.
__device__ __forceinline__ bool unit_of(const ProductArguments &arguments, int cluster, int index, Unit &unit) {
  const Split &split = arguments.split;
  const int unsplit = split.rounds * arguments.clusters;
  const int tiles = arguments.tiles_m * arguments.tiles_n - unsplit;
  unit.part = -1;
  unit.first_step = 0;
  unit.steps = arguments.steps;
  if (index < split.rounds) {
    place_of(cluster + index * arguments.clusters, arguments.tiles_m, arguments.tiles_n, unit.m, unit.n);
    return true;
  }
  index -= split.rounds;
  const int wide_clusters = split.wide * tiles;
  if (cluster < wide_clusters) {
    if (index > 0) return false;
    unit.tile = cluster % tiles;
    unit.part = cluster / tiles;
    unit.first_step = unit.part * split.wide_steps;
    unit.steps = min(split.wide_steps, arguments.steps - unit.first_step);
  } else {
    const int i = cluster - wide_clusters + index * (arguments.clusters - wide_clusters);
    if (i >= tiles * split.narrow) return false;
    unit.tile = i % tiles;
    if (split.parts() > 1) {
      const int narrow = i / tiles;
      unit.part = split.wide + narrow;
      unit.first_step = split.wide * split.wide_steps + narrow * split.narrow_steps;
      unit.steps = min(split.narrow_steps, arguments.steps - unit.first_step);
    }
  }
  place_of(unsplit + unit.tile, arguments.tiles_m, arguments.tiles_n, unit.m, unit.n);
  return true;
}

// A batch of matmuls of equal size, computed one matrix after another. No tile is split. A symmetric matmul has square
// tiles, and only tiles on and above the diagonal are computed.
struct BatchArguments : ProductArguments {
  using Matrix = int;
  int matrices;
  bool symmetric;
  __host__ __device__ int tiles() const { return symmetric ? tiles_n * (tiles_n + 1) / 2 : tiles_m * tiles_n; }
};

__device__ __forceinline__ bool unit_of(const BatchArguments &arguments, int cluster, int index, BatchUnit &unit) {
  const int tiles = arguments.tiles(), i = cluster + index * arguments.clusters;
  if (i >= arguments.matrices * tiles) return false;
  unit.set_matrix(i / tiles);
  unit.first_step = 0;
  unit.steps = arguments.steps;
  if (arguments.symmetric) {
    unit.m = i % tiles;
    for (unit.n = 0; unit.m > unit.n;) unit.m -= ++unit.n;
  } else {
    place_of(i % tiles, arguments.tiles_m, arguments.tiles_n, unit.m, unit.n);
  }
  return true;
}

// The arguments of an FP8 matmul. One block computes a whole tile: no tile is split in K.
template <class E>
struct Fp8ArgumentsOf : ProductArguments {
  using Element = E;
  using Maps = Fp8Maps;
  Fp8Operands fp8;
};
using Fp8Arguments = Fp8ArgumentsOf<e4m3>;

template <class E>
__device__ __forceinline__ bool unit_of(const Fp8ArgumentsOf<E> &arguments, int cluster, int index, Unit &unit) {
  const int i = cluster + index * arguments.clusters;
  if (i >= arguments.tiles_m * arguments.tiles_n) return false;
  unit.first_step = 0;
  unit.steps = arguments.steps;
  place_of(i, arguments.tiles_m, arguments.tiles_n, unit.m, unit.n);
  return true;
}

// The split that computes every tile over all of k.
template <class Element = bf16>
Split unsplit(const Product &product) {
  return {0, 0, 0, 1, static_cast<int>(ceil_divide(product.K, step_k_of<Element>))};
}

}  // namespace gpt2::sm90
