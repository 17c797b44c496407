// Matmuls in tiles of 128 x 192; each tile is finished (epilogue and store) while the next is multiplied.
//
// A thread has the accumulators of two tiles, 2 x 96: while the tensor cores work on a step of one tile, its warp
// finishes 16 columns of the previous tile. With k = 768, finishing a tile after its last step took a fifth of the
// tile's time, and a third with GELU's two results. Interleaving is not free either: with only a bias the tensor cores
// were busy 88% of the time, with GELU 58%. The twelve slices of 16 columns are finished during the first steps: one in
// a step of bf16, two in a step of FP8 (k = 768 has only six FP8 steps).
#pragma once

#include <algorithm>
#include <type_traits>

#include "product-finisher.cuh"

namespace gpt2::sm90 {

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, class Element = bf16>
using InterleavedRing =
    ProductRing<A_K_MAJOR, B_K_MAJOR, interleaved_tile_n, Interleaved<E, Element>::staging_bytes, Element>;

// Calls body(0), ..., body(COUNT - 1) with compile-time constants.
template <int COUNT, int I = 0, class Body>
__device__ __forceinline__ void unroll(Body &body) {
  if constexpr (I < COUNT) {
    body(std::integral_constant<int, I>{});
    unroll<COUNT, I + 1>(body);
  }
}

// The loop of a consumer warpgroup over its tiles; multiplies one tile while it finishes the previous one.
template <class Ring, Epilogue E, class Arguments>
struct Multiplier {
  using Result = float[interleaved_tile_n / 2];
  using Element = typename Arguments::Element;
  using Shape = Interleaved<E, Element>;
  static constexpr bool reads_extra = Shape::reads_extra;
  static constexpr int per_step = slices_per_step<Element>;

  const Ring &ring;
  Finisher<E, Arguments> &finisher;
  const Arguments &arguments;
  const int consumer;
  int index = 0;
  UnitOf<typename Arguments::Matrix> unit{};
  RingPosition<Ring::stages> at{};
  uint32_t previous = Ring::no_stage;

  __device__ __forceinline__ bool next() { return unit_of(arguments, ring.cluster, index++, unit); }
  __device__ __forceinline__ int row0() const {
    return ring.first_row(unit) + consumer * 64 + static_cast<int>(threadIdx.x % 128 / 32) * 16;
  }
  __device__ __forceinline__ int n0() const { return unit.n * interleaved_tile_n; }
  // Hands the tile that was just multiplied to the finisher.
  __device__ __forceinline__ void pass() {
    finisher.set_matrix(unit.matrix());
    finisher.row0 = row0();
    finisher.n0 = n0();
    finisher.tile_n = unit.n;
    if constexpr (Shape::loads_early) finisher.prepare();
  }

  // Multiplies the first tile; there is no earlier tile to finish.
  __device__ __forceinline__ void begin(Result &result) {
    if constexpr (reads_extra) {
      finisher.load_extra(unit.matrix(), row0(), n0(), 0);
      finisher.load_extra(unit.matrix(), row0(), n0(), 1);
    }
    for (int step = 0; step < unit.steps; step++) ring.multiply(result, consumer, at, previous, step > 0);
    pass();
  }

  // Multiplies a tile into `result`, and meanwhile finishes the previous tile, which has its sums in `finished`.
  __device__ __forceinline__ void turn(Result &result, Result &finished) {
    const auto step = [&](auto constant) {
      constexpr int s = decltype(constant)::value;
      if constexpr (s % per_step == 0) {
        if constexpr (!Shape::loads_early) s == 0 ? finisher.prepare() : finisher.load_bias(s);
        ring.template multiply<Shape::eager>(result, consumer, at, previous, s > 0);
      }
      if constexpr (s == 0) hold(finished);
      finisher.template finish<s>(finished);
      if constexpr (reads_extra) {
        // A buffer holds four slices of 16 columns. The next input is loaded at least two slices after the buffer's
        // last use: the store of its results or, if other buffers take the results, the last read of its earlier input.
        if constexpr (s == 1) finisher.load_extra(finisher.matrix(), finisher.row0, finisher.n0, 2);
        if constexpr (s == 6) finisher.load_extra(unit.matrix(), row0(), n0(), 0);
        if constexpr (s == 10) finisher.load_extra(unit.matrix(), row0(), n0(), 1);
      }
    };
    unroll<slices>(step);
    for (int s = least_steps<Element>; s < unit.steps; s++) ring.multiply(result, consumer, at, previous, true);
    pass();
  }

  // Finishes the last tile; there is no later tile to multiply.
  __device__ __forceinline__ void end(Result &finished) {
    wgmma_wait<0>();
    hold(finished);
    ring.release(previous);
    const auto step = [&](auto constant) {
      constexpr int s = decltype(constant)::value;
      if constexpr (!Shape::loads_early && s % per_step == 0) s == 0 ? finisher.prepare() : finisher.load_bias(s);
      finisher.template finish<s>(finished);
      if constexpr (reads_extra && s == 1) {
        finisher.load_extra(finisher.matrix(), finisher.row0, finisher.n0, 2);
      }
    };
    unroll<slices>(step);
  }
};

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, class Arguments = ProductArguments>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(product_threads, 1)
    interleaved_kernel(const __grid_constant__ typename Arguments::Maps maps, const Arguments arguments,
                       const ProductOutputs outputs) {
  using Ring = InterleavedRing<A_K_MAJOR, B_K_MAJOR, E, typename Arguments::Element>;
  using Shape = Interleaved<E, typename Arguments::Element>;
  extern __shared__ unsigned char memory[];
  const Ring ring(memory);
  const int warp = threadIdx.x % 128 / 32;
  const auto prepare = [&] {
    for (int i = 0; i < 8 * Shape::buffers; i++) barrier_init(ring.barriers + i * 8, 1);
    if constexpr (Shape::stores_fp8) {
      if (arguments.fp8.values) prefetch_map(maps.values);
      if (arguments.fp8.columnwise) prefetch_map(maps.columnwise);
    } else {
      prefetch_map(maps.out);
    }
    if (Shape::reads_extra || E == Epilogue::gelu) prefetch_map(maps.other);
  };
  const int warpgroup = ring.begin(maps, prepare);
  if (warpgroup == 0) {
    ring.produce(arguments, maps);
  } else {
    const int consumer = ring.start_consumer(warpgroup), place = consumer * 4 + warp;
    const uint32_t staging = ring.staging + place * Shape::warp_stride + consumer * Shape::more_bytes;
    Finisher<E, Arguments> finisher(maps, arguments, outputs, staging, ring.barriers + place * (Shape::buffers * 8));
    Multiplier<Ring, E, Arguments> multiplier{ring, finisher, arguments, consumer};
    float even[interleaved_tile_n / 2], odd[interleaved_tile_n / 2];
    multiplier.next();  // every cluster has a first tile
    multiplier.begin(even);
    while (true) {
      if (!multiplier.next()) {
        multiplier.end(even);
        break;
      }
      multiplier.turn(odd, even);
      if (!multiplier.next()) {
        multiplier.end(odd);
        break;
      }
      multiplier.turn(even, odd);
    }
  }
  ring.end();
}

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, class Arguments = ProductArguments>
void launch_interleaved(const CudaContext &context, const Product &product, const ProductOutputs &outputs,
                        const bf16 *out, const bf16 *other, const Arguments &arguments = {}) {
  using Element = typename Arguments::Element;
  Split split = unsplit<Element>(product);
  split.narrow_steps = std::max(split.narrow_steps, least_steps<Element>);
  typename Arguments::Maps maps{};
  using Shape = Interleaved<E, Element>;
  constexpr int stored_rows = Shape::stores_several ? 64 : 16;
  constexpr int other_rows = E == Epilogue::gelu ? stored_rows : 16;
  maps.other = Shape::has_bytes ? fp8_matrix_map(other, product.N, product.M, product.N, other_rows, 64)
                                : result_map(product, other, 64, other_rows);
  if constexpr (Shape::stores_fp8) {
    if (const uint8_t *values = arguments.fp8.values) {
      maps.values = fp8_matrix_map(values, product.N, product.M, product.N, 64, 64);
    }
    if (uint8_t *columnwise = arguments.fp8.columnwise) {
      const int64_t rows = columnwise_groups(product.M) * GPT2_FP8_GROUP;
      maps.columnwise = fp8_matrix_map(columnwise, rows, product.N, rows, 64, 64);
    }
  }
  launch_product<A_K_MAJOR, B_K_MAJOR, interleaved_tile_n>(
      context, interleaved_kernel<A_K_MAJOR, B_K_MAJOR, E, Arguments>,
      InterleavedRing<A_K_MAJOR, B_K_MAJOR, E, Element>::shared_bytes, product, outputs, out, maps, split, arguments,
      stored_rows);
}

}  // namespace gpt2::sm90
