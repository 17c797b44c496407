// out = in * weight^T with its epilogue, sm_80 and later: both operands K-major.
#include "../common/tensor-cores.h"
#include "product.cuh"

namespace gpt2 {

void sm80::matmul_forward(const CudaContext &context, Epilogue epilogue, const Product &product,
                          const Outputs<bf16, bf16> &outputs) {
  with_forward_epilogue(epilogue, [&](auto E) { launch_product<true, true, E>(context, product, outputs); });
}

}  // namespace gpt2
