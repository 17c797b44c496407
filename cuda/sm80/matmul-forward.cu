// out = in * weight^T with its epilogue, sm_80 and later: both operands K-major.
#include "../common/tensor-cores.h"
#include "product.cuh"

namespace gpt2 {

void sm80::matmul_forward(const CudaContext &context, Epilogue epilogue, const Product &product,
                          const Outputs<bf16, bf16> &outputs) {
  if (epilogue == Epilogue::gelu) return launch_product<true, true, Epilogue::gelu>(context, product, outputs);
  if (epilogue == Epilogue::relu_squared) {
    return launch_product<true, true, Epilogue::relu_squared>(context, product, outputs);
  }
  if (epilogue == Epilogue::residual) return launch_product<true, true, Epilogue::residual>(context, product, outputs);
  launch_product<true, true, Epilogue::bias>(context, product, outputs);
}

}  // namespace gpt2
