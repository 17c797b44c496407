// dweight = dout^T * in and the column sums of dout: both operands MN-major. The classifier's column sums are weighted,
// with a factor for each row.
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

struct Plan : sm90::GradientPlan {
  bool stores_bf16;  // TMA stores dweight in bf16: no tile is split, no dbias; to accumulate, dweight is the residual
};

Plan plan_of(const CudaContext &context, int N, int C, int O, bool has_bias) {
  using Ring = sm90::PlainRing<false, false, Epilogue::gradient>;
  const int clusters =
      sm90::resident_clusters(context, sm90::plain_kernel<false, false, Epilogue::gradient>, Ring::shared_bytes);
  const int64_t tiles_n = ceil_divide(C, sm90::plain_tile_n), tiles = ceil_divide(O, 2 * sm90::tile_m) * tiles_n;
  const sm90::TileCosts costs{0.65, 3, sm90::part_floats<sm90::plain_tile_n> * sizeof(float)};
  const sm90::Split split = sm90::Planner(tiles, ceil_divide(N, sm90::step_k), clusters, costs).choose();
  return {{split, tiles, tiles_n, clusters}, split.parts() == 1 && !context.accumulates && !has_bias};
}

}  // namespace

int64_t sm90::matmul_backward_weight_scratch(const CudaContext &context, int N, int C, int O) {
  Scratch scratch;
  ProductOutputs outputs;
  plan_of(context, N, C, O, true).take<plain_tile_n>(scratch, O, outputs);
  return scratch.bytes();
}

void sm90::matmul_backward_weight(const CudaContext &context, const Product &product, void *dweight, float *dbias,
                                  bool accumulate, void *memory) {
  matmul_backward_weight(context, product, dweight, dbias, nullptr, accumulate, memory);
}

void sm90::matmul_backward_weight(const CudaContext &context, const Product &product, void *dweight, float *dbias,
                                  const bf16 *weights, bool accumulate, void *memory) {
  const Plan plan = plan_of(context, product.K, product.N, product.M, dbias != nullptr);
  if (plan.stores_bf16) {
    const ProductOutputs outputs;
    auto *result = static_cast<bf16 *>(dweight);
    if (accumulate) {
      launch_interleaved<false, false, Epilogue::residual>(context, product, outputs, result, result);
    } else {
      launch_plain<false, false, Epilogue::bias>(context, product, outputs, result, unsplit(product));
    }
    return;
  }
  const auto launch = [&](const ProductOutputs &outputs) {
    const auto weighed = [&](auto weighs, const CUtensorMap &map) {
      return launch_plain<false, false, Epilogue::gradient, plain_tile_n, weighs>(context, product, outputs, nullptr,
                                                                                  plan.split, map);
    };
    if (!dbias || !weights) return weighed(std::false_type{}, CUtensorMap{});
    return weighed(std::true_type{}, matrix_map(weights, product.K, 2, weights_line(product.K), 8));
  };
  sum_gradient<plain_tile_n>(context, plan, product.M, dweight, dbias, accumulate, memory, launch);
}

}  // namespace gpt2
