// dweight = dout^T * in and the column sums of dout: both operands MN-major, k as long as the batch has tokens.
//
// Where tiles do not come out even on the SMs, k is cut for some of them (Split); parts go to scratch in fp32 and are added in
// order: no atomics, the same bits every time. The column sums of dout are products with ones, of 8 columns: a hundredth of the time, where summing in
// the idle warps of the producer took a twentieth (what other warps compute slows the tensor cores beside them).
#include "../common/partial-sums.cuh"
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

using namespace sm90;

// A gradient of bf16 without a bias that is added to, all of it whole: as a residual.
bool as_residual(const CudaContext &context, const PlainPlan &plan, bool has_bias, bool accumulate) {
  return accumulate && !has_bias && !context.accumulates && plan.tiles == 0;
}

}  // namespace

int64_t sm90::matmul_backward_weight_scratch(const CudaContext &context, int N, int C, int O) {
  const PlainPlan plan = plan_plain(context, O, C, N);
  Scratch scratch;
  scratch.take<float>(plan.sums * O);
  scratch.take<float>(plan.floats());
  return scratch.bytes();
}

void sm90::matmul_backward_weight(const CudaContext &context, const Product &product, void *dweight, float *dbias,
                                  bool accumulate, void *memory) {
  const PlainPlan plan = plan_plain(context, product.M, product.N, product.K);
  auto *bf16_weight = static_cast<bf16 *>(dweight);
  if (as_residual(context, plan, dbias != nullptr, accumulate)) {
    launch_interleaved<false, false, Epilogue::residual>(context, product, {}, bf16_weight, bf16_weight);
    return;
  }
  Scratch scratch(memory);
  float *sums = scratch.take<float>(plan.sums * product.M);
  ProductOutputs outputs;
  outputs.sums = dbias ? sums : nullptr;
  outputs.parts = scratch.take<float>(plan.floats());
  outputs.is_bf16 = !context.accumulates;
  outputs.accumulate = accumulate;
  if (accumulate || context.accumulates) outputs.result = dweight;
  launch_plain<false, false>(context, product, outputs, bf16_weight, plan);
  if (dbias) launch_add_partials(context, dbias, nullptr, sums, static_cast<int>(plan.sums), product.M, accumulate);
}

}  // namespace gpt2
