// out = in * weight^T with its epilogue: both operands K-major.
#include "../common/tensor-cores.h"
#include "product-interleaved.cuh"
#include "product-plain.cuh"

namespace gpt2 {

void sm90::matmul_forward(const CudaContext &context, Epilogue epilogue, const Product &product,
                          const Outputs<bf16, bf16> &outputs) {
  ProductOutputs extra;
  extra.bias = outputs.bias;
  if (epilogue == Epilogue::gelu) {
    launch_interleaved<true, true, Epilogue::gelu>(context, product, extra, outputs.out, outputs.pre);
  } else if (epilogue == Epilogue::relu_squared) {
    launch_interleaved<true, true, Epilogue::relu_squared>(context, product, extra, outputs.out, nullptr);
  } else if (epilogue == Epilogue::residual && product.K >= 4 * 1024) {
    // At k = 3072, plain tiles were no faster than interleaved ones.
    extra.residual = outputs.residual;
    launch_plain_of_any_width<true, true, Epilogue::residual>(context, product, extra, outputs.out);
  } else if (epilogue == Epilogue::residual) {
    launch_interleaved<true, true, Epilogue::residual>(context, product, extra, outputs.out, outputs.residual);
  } else {
    launch_interleaved<true, true, Epilogue::bias>(context, product, extra, outputs.out, nullptr);
  }
}

}  // namespace gpt2
