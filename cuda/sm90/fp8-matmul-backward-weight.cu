// dweight = dout^T * in and the column sums of dout, from columnwise copies in FP8: both operands K-major. Each operand
// has a scale for each block of 512 k, so a block is summed in separate registers, multiplied by both scales, and added
// to the tile's sums in fp32. A long k needs this promotion anyway (fp8-matmul.cu).
//
// The column sums come from 8 columns of ones after the columns of `in`. With an instruction of 200 columns, an MLP's
// two gradients took 6.62 ms of d12's step (batch 64, H100), with two (192 and 8), which read dout twice, 6.72 ms.
//
// For the classifier, dout is in E5M2 without scales, and its column sums are weighted: the first two of the 8 columns
// hold each row's weight, as the sum of an E4M3 number and 2^-6 times another, scaled like `in`.
#include "../common/tensor-cores.h"
#include "weight-gradient.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

constexpr int tile_n = 192;
template <class Element>
using GradientRing =
    ProductRing<true, true, tile_n, 0, Element, is_e5m2<Element> ? AfterB::weights : AfterB::ones>;

template <class E>
struct Fp8GradientArguments : ProductArguments {
  using Element = E;
  const float *a_scale, *b_scale;  // a scale for each block of 512 k
};

template <class Element>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(product_threads, 1)
    gradient_kernel(const __grid_constant__ ProductMaps maps, const Fp8GradientArguments<Element> arguments,
                    const ProductOutputs outputs) {
  extern __shared__ unsigned char memory[];
  using Ring = GradientRing<Element>;
  constexpr bool weighs = is_e5m2<Element>;
  const Ring ring(memory);
  const int warp = threadIdx.x % 128 / 32;
  for (int i = 0; !weighs && i < Ring::stages; i++) {
    store_ones<Element>(ring.ring + i * Ring::stage_bytes + Ring::after_b_at);
  }
  const int warpgroup = ring.begin(maps, [] {});
  if (warpgroup == 0) {
    ring.produce(arguments, maps);
  } else {
    const int consumer = ring.start_consumer(warpgroup);
    Unit unit;
    RingPosition<Ring::stages> at;
    // part: sums of the tile's columns, then of the 8 columns of ones. All begin as 0: hold() reads unused sums too.
    float result[tile_n / 2], part[tile_n / 2 + 4] = {};
    auto &part_of_tile = reinterpret_cast<float(&)[tile_n / 2]>(part);
    for (int index = 0; unit_of(arguments, ring.cluster, index, unit); index++) {
      const int row0 = ring.first_row(unit) + consumer * 64 + warp * 16;
#pragma unroll
      for (int i = 0; i < tile_n / 2; i++) result[i] = 0;
      float sums[2] = {};
      // Every unit of work begins at a block of k, so each pass of this loop takes one block.
      for (int step = 0; step < unit.steps;) {
        const int block = (unit.first_step + step) / promoted_steps, end = min(step + promoted_steps, unit.steps);
        const float b_scale = arguments.b_scale[block], a_scale = weighs ? b_scale : arguments.a_scale[block];
        const float scale = weighs ? b_scale : a_scale * b_scale;
        uint32_t previous = Ring::no_stage;
        // All tiles of a row have the same a, and divide its sums over k: each tile sums every tiles_n-th block of k.
        const bool adds_sums = outputs.sums && block % arguments.tiles_n == unit.n;
        const auto multiply_block = [&](auto &sums_of_block) {
          for (bool adds = false; step < end; step++, adds = true) {
            ring.multiply(sums_of_block, consumer, at, previous, adds);
          }
        };
        if (adds_sums) {
          multiply_block(part);
        } else {
          multiply_block(part_of_tile);
        }
        wgmma_wait<0>();
        hold(part);
        ring.release(previous);
#pragma unroll
        for (int i = 0; i < tile_n / 2; i++) result[i] += part[i] * scale;
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float sum = part[tile_n / 2 + half * 2];
          if constexpr (weighs) sum = fmaf(part[tile_n / 2 + half * 2 + 1], 0x1p-6f, sum);
          sums[half] += adds_sums ? sum * a_scale : 0.0f;
        }
      }
      store_gradient<tile_n>(arguments, outputs, unit, row0, result, sums);
    }
  }
  ring.end();
}

GradientPlan plan_of(const CudaContext &context, int N, int C, int O) {
  const int clusters = resident_clusters(context, gradient_kernel<e4m3>, GradientRing<e4m3>::shared_bytes);
  const int64_t tiles_n = ceil_divide(C, tile_n), tiles = ceil_divide(O, 2 * tile_m) * tiles_n;
  const TileCosts costs{2.3, 1, part_floats<tile_n> * sizeof(float)};
  Split split = Planner(tiles, ceil_divide(N, GPT2_FP8_BLOCK), clusters, costs).choose();
  split.wide_steps *= promoted_steps;
  split.narrow_steps *= promoted_steps;
  return {split, tiles, tiles_n, clusters};
}

template <class Element>
void backward_weight(const CudaContext &context, const Product &product, const CUtensorMap &weights,
                     const float *a_scale, const float *b_scale, void *dweight, float *dbias, bool accumulate,
                     void *memory) {
  const GradientPlan plan = plan_of(context, product.K, product.N, product.M);
  ProductMaps maps{};
  maps.other = weights;
  const auto launch = [&](const ProductOutputs &outputs) {
    const Fp8GradientArguments<Element> arguments{{}, a_scale, b_scale};
    return launch_product<true, true, tile_n>(context, gradient_kernel<Element>, GradientRing<Element>::shared_bytes,
                                              product, outputs, nullptr, maps, plan.split, arguments);
  };
  sum_gradient<tile_n>(context, plan, product.M, dweight, dbias, accumulate, memory, launch);
}

}  // namespace

int64_t sm90::fp8_matmul_backward_weight_scratch(const CudaContext &context, int N, int C, int O) {
  Scratch scratch;
  ProductOutputs outputs;
  plan_of(context, N, C, O).take<tile_n>(scratch, O, outputs);
  return scratch.bytes();
}

void sm90::fp8_matmul_backward_weight(const CudaContext &context, const Product &product, const float *a_scale,
                                      const float *b_scale, void *dweight, float *dbias, bool accumulate,
                                      void *memory) {
  backward_weight<e4m3>(context, product, {}, a_scale, b_scale, dweight, dbias, accumulate, memory);
}

void sm90::classifier_backward_weight(const CudaContext &context, const Product &product, const uint8_t *weights,
                                      const float *b_scale, void *dweight, float *dbias, bool accumulate,
                                      void *memory) {
  backward_weight<e5m2>(context, product, fp8_matrix_map(weights, product.K, 2, product.K, 8), nullptr,
                        b_scale, dweight, dbias, accumulate, memory);
}

}  // namespace gpt2
