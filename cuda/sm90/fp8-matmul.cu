// FP8 matmuls: forward, and backward to the input with the transposed weight; both operands K-major.
//
// Hopper's tensor cores sum FP8 terms with about 14 bits, and truncate. So with a long k, sums are promoted: a few
// steps are summed in separate registers, which are then added to the tile's sums in fp32. While one warpgroup adds,
// the other multiplies. Only matmuls with the epilogue bias or residual promote: below 2048 channels no other matmul
// has a long k, and the interleaved kernel's two tiles of sums leave no registers for a third.
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

constexpr int promoted_from_k = 2048;
// Results of 8192 x 1600 take five rounds on 66 clusters in 10 narrow or 9 wide tiles a row; narrow rounds are shorter.
constexpr int wide_tile_n = 192, narrow_tile_n = 160, promoted_buffers = 3;
template <int TILE_N, class Element>
using PromotedRing = ProductRing<true, true, TILE_N, 8 * promoted_buffers * buffer_bytes, Element>;

template <Epilogue E>
constexpr std::integral_constant<Epilogue, E> constant{};

// out [M,N] = a b^T + bias + residual; either may be NULL. Both are loaded while the first steps are multiplied, and
// added with the first promotion, because later no registers are left for them. With E5M2 (the classifier): out = a b^T
// + factor * residual. Each row of out has a factor, and the row's target selects the row of `residual`.
template <int TILE_N, class Element>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(product_threads, 1)
    promoted_kernel(const __grid_constant__ Fp8Maps maps, const Fp8ArgumentsOf<Element> arguments,
                    const ProductOutputs outputs) {
  extern __shared__ unsigned char memory[];
  using Ring = PromotedRing<TILE_N, Element>;
  constexpr bool chooses = is_e5m2<Element>;
  const Ring ring(memory);
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = ring.begin(maps, [&] { prefetch_map(maps.out); });
  if (warpgroup == 0) {
    ring.produce(arguments, maps);
  } else {
    const int consumer = ring.start_consumer(warpgroup);
    const uint32_t staging = ring.staging + (consumer * 4 + warp) * (promoted_buffers * buffer_bytes);
    Unit unit;
    RingPosition<Ring::stages> at;
    float result[TILE_N / 2], part[TILE_N / 2];
    for (int index = 0; unit_of(arguments, ring.cluster, index, unit); index++) {
      const int row0 = ring.first_row(unit) + consumer * 64 + warp * 16, n0 = unit.n * TILE_N;
      int step = 0;
      // Sums the next steps, at most promoted_steps, in `part`.
      const auto multiply_part = [&] {
        const int end = min(step + promoted_steps, unit.steps);
        uint32_t previous = Ring::no_stage;
        for (bool adds = false; step < end; step++, adds = true) {
          ring.multiply(part, consumer, at, previous, adds);
        }
        wgmma_wait<0>();
        hold(part);
        ring.release(previous);
      };

      Residual<TILE_N> added{};
      if (chooses || outputs.residual) {
        added.template load_rows<chooses>(outputs, row0, n0, arguments.M, arguments.N);
      } else {
        added.load_bias(outputs.bias, n0, arguments.N, 0);
      }
      float scale[2] = {}, row_factor[2] = {};
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row = row0 + half * 8 + lane / 4;
        if (row < arguments.M) {
          scale[half] = arguments.fp8.scale[row];
          if constexpr (chooses) row_factor[half] = outputs.rows[row];
        }
      }
      const float factor = arguments.fp8.factors[GPT2_FP8_SCALE];
      multiply_part();
      scale[0] *= factor;
      scale[1] *= factor;
#pragma unroll
      for (int group = 0; group < TILE_N / 8; group++) {
        if (!chooses && group % 8 == 0) added.load_bias(outputs.bias, n0, arguments.N, group / 8 + 1);
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int i = group * 4 + half * 2;
          const float2 scaled = make_float2(part[i] * scale[half], part[i + 1] * scale[half]);
          const float2 sum =
              chooses ? added.add_scaled(scaled, half, group, row_factor[half]) : added.add(scaled, half, group);
          result[i] = sum.x;
          result[i + 1] = sum.y;
        }
      }
      while (step < unit.steps) {
        multiply_part();
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i++) result[i] += part[i] * scale[i / 2 % 2];
      }

      store_rows<promoted_buffers>(
          maps, staging, lane, row0, n0, store_policy(arguments.streams), result, [](int) {},
          [](float2 pair, int, int) { return pair; });
    }
  }
  ring.end();
}

template <class Element>
void launch_promoted(const CudaContext &context, const Product &product, const ProductOutputs &outputs, const bf16 *out,
                     const Fp8ArgumentsOf<Element> &arguments) {
  using Wide = PromotedRing<wide_tile_n, Element>;
  const int clusters = resident_clusters(context, promoted_kernel<wide_tile_n, Element>, Wide::shared_bytes);
  const auto launch = [&](auto tile_n) {
    launch_product<true, true, tile_n>(context, promoted_kernel<tile_n, Element>,
                                       PromotedRing<tile_n, Element>::shared_bytes, product, outputs, out, Fp8Maps{},
                                       unsplit<Element>(product), arguments);
  };
  if (relative_time(product, narrow_tile_n, clusters, 32) < relative_time(product, wide_tile_n, clusters, 32)) {
    launch(std::integral_constant<int, narrow_tile_n>{});
  } else {
    launch(std::integral_constant<int, wide_tile_n>{});
  }
}

}  // namespace

void sm90::classifier_backward_input(const CudaContext &context, const Product &product, const Fp8Operands &fp8,
                                     const Classifier &args, const float *factor_of_target) {
  ProductOutputs outputs;
  outputs.residual = args.weight;
  outputs.targets = args.targets;
  outputs.rows = factor_of_target;
  outputs.columns = args.V;
  launch_promoted(context, product, outputs, args.din, Fp8ArgumentsOf<e5m2>{{}, fp8});
}

void sm90::fp8_matmul(const CudaContext &context, Epilogue epilogue, const Product &product, const Fp8Operands &fp8,
                      const Outputs<bf16, bf16> &outputs) {
  const Fp8Arguments arguments{{}, fp8};
  ProductOutputs extra;
  extra.bias = outputs.bias;
  const auto launch = [&](auto chosen, const bf16 *other) {
    launch_interleaved<true, true, chosen>(context, product, extra, outputs.out, other, arguments);
  };
  if (epilogue == Epilogue::gelu) {
    launch(constant<Epilogue::gelu>, outputs.pre);
  } else if (epilogue == Epilogue::gelu_backward) {
    launch(constant<Epilogue::gelu_backward>, outputs.pre);
  } else if (epilogue == Epilogue::relu_squared) {
    launch(constant<Epilogue::relu_squared>, nullptr);
  } else if (epilogue == Epilogue::relu_squared_backward) {
    launch(constant<Epilogue::relu_squared_backward>, outputs.pre);
  } else if (product.K >= promoted_from_k) {
    if (epilogue == Epilogue::residual) extra.residual = outputs.residual;
    launch_promoted(context, product, extra, outputs.out, arguments);
  } else if (epilogue == Epilogue::residual) {
    launch(constant<Epilogue::residual>, outputs.residual);
  } else {
    launch(constant<Epilogue::bias>, nullptr);
  }
}

}  // namespace gpt2
