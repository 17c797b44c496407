// din = dout * weight, optionally times the derivative of an activation, sm_80 and later: dout K-major, the weight
// MN-major. Also Epilogue::combination of newton-schulz.cuh, which has the same layouts.
#include "../common/tensor-cores.h"
#include "product.cuh"

namespace gpt2 {

void sm80::matmul_backward_input(const CudaContext &context, Epilogue epilogue, const Product &product,
                                 const Outputs<bf16, bf16> &outputs) {
  if (epilogue == Epilogue::gelu_backward) {
    return launch_product<true, false, Epilogue::gelu_backward>(context, product, outputs);
  }
  if (epilogue == Epilogue::relu_squared_backward) {
    return launch_product<true, false, Epilogue::relu_squared_backward>(context, product, outputs);
  }
  if (epilogue == Epilogue::combination) {
    return launch_product<true, false, Epilogue::combination>(context, product, outputs);
  }
  launch_product<true, false, Epilogue::bias>(context, product, outputs);
}

}  // namespace gpt2
