// din = dout * weight, through the GELU if asked: dout K-major, the weight MN-major.
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

namespace {

// From here on a plain product's end is little beside its k.
constexpr int long_k = 2 * 768;

}  // namespace

int64_t sm90::matmul_backward_input_scratch(const CudaContext &context, int N, int C, int O) {
  Scratch scratch;
  if (O >= long_k) scratch.take<float>(plan_plain(context, N, C, O).floats());
  return scratch.bytes();
}

void sm90::matmul_backward_input(const CudaContext &context, Epilogue epilogue, const Product &product,
                                 const Outputs<bf16, bf16> &outputs) {
  if (epilogue == Epilogue::gelu_backward) {
    launch_interleaved<true, false, Epilogue::gelu_backward>(context, product, {}, outputs.out, outputs.pre);
  } else if (product.K >= long_k) {
    const PlainPlan plan = plan_plain(context, product.M, product.N, product.K);
    ProductOutputs beside;
    beside.parts = Scratch(context.workspace).take<float>(plan.floats());
    launch_plain<true, false>(context, product, beside, outputs.out, plan);
  } else {
    launch_interleaved<true, false, Epilogue::bias>(context, product, {}, outputs.out, nullptr);
  }
}

}  // namespace gpt2
