// Products of FP8: forward, and backward to the input with the transposed weight; both operands K-major.
//
// Hopper's tensor cores add products of E4M3 with about 14 bits, and truncate. So with a long k, sums are promoted: a
// few steps are summed in registers of their own and then added to the tile's sums in fp32. While one warpgroup adds,
// the other multiplies. Only products with a bias or residual are promoted: with fewer than 2048 channels no others have
// a long k, and the interleaved kernel's two tiles of sums leave no registers for a third.
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

constexpr int promoted_from_k = 2048;
constexpr int promoted_steps = 4;  // 512 of k
constexpr int promoted_tile_n = interleaved_tile_n;
constexpr int promoted_buffers = promoted_tile_n / 64;
using PromotedRing = ProductRing<true, true, promoted_tile_n, 8 * promoted_buffers * buffer_bytes, false, e4m3>;

template <Epilogue E>
constexpr std::integral_constant<Epilogue, E> constant{};

// out = result + bias + residual, if any. Both are added with the first sums: they are loaded while these are
// multiplied, and no registers are left for them later.
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(product_threads, 1)
    promoted_kernel(const __grid_constant__ Fp8Maps maps, const Fp8Arguments arguments, const ProductOutputs outputs) {
  extern __shared__ unsigned char memory[];
  const PromotedRing ring(memory);
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
  if (threadIdx.x == 0) {
    ring.init();
    fence_barrier_init();
    prefetch_map(maps.a);
    prefetch_map(maps.b);
    prefetch_map(maps.out);
  }
  cluster_sync();
  wait_for_previous_kernel();

  if (warpgroup == 0) {
    decrease_registers<40>();
    if (warp == 0 && lane == 0) ring.produce(arguments, maps);
  } else {
    increase_registers<232>();
    const int consumer = warpgroup - 1;
    const uint32_t staging = ring.staging + (consumer * 4 + warp) * (promoted_buffers * buffer_bytes);
    Unit unit;
    RingPosition<PromotedRing::stages> at;
    float result[promoted_tile_n / 2], part[promoted_tile_n / 2];
    for (int index = 0; unit_of(arguments, ring.cluster, index, unit); index++) {
      const int row0 = ring.first_row(unit) + consumer * 64 + warp * 16, n0 = unit.n * promoted_tile_n;
      int step = 0;
      // Sums the next steps in `part`.
      const auto multiply_part = [&] {
        const int end = min(step + promoted_steps, unit.steps);
        uint32_t previous = PromotedRing::no_stage;
        for (bool adds = false; step < end; step++, adds = true) {
          ring.multiply(part, consumer, at, previous, adds);
        }
        wgmma_wait<0>();
        hold(part);
        ring.release(previous);
      };

      Residual<promoted_tile_n> added{};
      if (outputs.residual) {
        added.load_rows(outputs, row0, n0, arguments.M, arguments.N);
      } else {
        added.load_bias(outputs.bias, n0, arguments.N, 0);
      }
      float scale[2] = {};
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row = row0 + half * 8 + lane / 4;
        if (row < arguments.M) scale[half] = arguments.fp8.scale[row];
      }
      const float factor = arguments.fp8.factors[GPT2_FP8_SCALE];
      multiply_part();
      scale[0] *= factor;
      scale[1] *= factor;
#pragma unroll
      for (int group = 0; group < promoted_tile_n / 8; group++) {
        if (group % 8 == 0) added.load_bias(outputs.bias, n0, arguments.N, group / 8 + 1);
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int i = group * 4 + half * 2;
          const float2 sum = added.add(make_float2(part[i] * scale[half], part[i + 1] * scale[half]), half, group);
          result[i] = sum.x;
          result[i + 1] = sum.y;
        }
      }
      while (step < unit.steps) {
        multiply_part();
#pragma unroll
        for (int i = 0; i < promoted_tile_n / 2; i++) result[i] += part[i] * scale[i / 2 % 2];
      }

      const uint64_t policy = store_policy(arguments.streams);
#pragma unroll
      for (int i = 0; i < promoted_buffers; i++) {
        const uint32_t buffer = staging + i * buffer_bytes;
        if (lane == 0) wait_stores_read<promoted_buffers - 1>();
        __syncwarp();
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
          uint32_t packed[4];
#pragma unroll
          for (int p = 0; p < 4; p++) {
            const int value = (i * 8 + j) * 4 + p * 2;
            packed[p] = pack_bf16(result[value], result[value + 1]);
          }
          store_matrices(matrices_at(buffer, j), packed);
        }
        fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
          store_box(maps.out, n0 + i * 64, row0, buffer, policy);
          commit_stores();
        }
      }
    }
    // Shared memory must stay allocated until the stores have read it.
    if (lane == 0) wait_stores_read<0>();
  }
  __syncwarp();
  // No block may exit while the other still sends to it or arrives at its barriers.
  cluster_sync();
}

}  // namespace

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
    launch_product<true, true, promoted_tile_n>(context, promoted_kernel, PromotedRing::shared_bytes, product, extra,
                                                outputs.out, Fp8Maps{}, unsplit<e4m3>(product), arguments);
  } else if (epilogue == Epilogue::residual) {
    launch(constant<Epilogue::residual>, outputs.residual);
  } else {
    launch(constant<Epilogue::bias>, nullptr);
  }
}

}  // namespace gpt2
