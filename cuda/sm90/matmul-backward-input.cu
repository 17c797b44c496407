// din = dout * weight, optionally times the derivative of an activation: dout K-major, the weight MN-major.
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

void sm90::matmul_backward_input(const CudaContext &context, Epilogue epilogue, const Product &product,
                                 const Outputs<bf16, bf16> &outputs) {
  if (epilogue == Epilogue::gelu_backward) {
    launch_interleaved<true, false, Epilogue::gelu_backward>(context, product, {}, outputs.out, outputs.pre);
  } else if (epilogue == Epilogue::relu_squared_backward) {
    launch_interleaved<true, false, Epilogue::relu_squared_backward>(context, product, {}, outputs.out, outputs.pre);
  } else if (product.K >= 2 * 768) {
    launch_plain_of_any_width<true, false, Epilogue::bias>(context, product, {}, outputs.out);
  } else {
    launch_interleaved<true, false, Epilogue::bias>(context, product, {}, outputs.out, nullptr);
  }
}

}  // namespace gpt2
