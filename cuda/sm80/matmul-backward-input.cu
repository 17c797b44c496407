// din = dout * weight, optionally times the derivative of an activation, sm_80 and later: dout K-major, the weight
// MN-major. Also Epilogue::combination of newton-schulz.cuh, which has the same layouts.
#include "../common/tensor-cores.h"
#include "product.cuh"

namespace gpt2 {

void sm80::matmul_backward_input(const CudaContext &context, Epilogue epilogue, const Product &product,
                                 const Outputs<bf16, bf16> &outputs) {
  with_backward_epilogue(epilogue, [&](auto E) { launch_product<true, false, E>(context, product, outputs); });
}

}  // namespace gpt2
