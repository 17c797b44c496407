// FP8 matmuls on sm_89 and later, by the matmul kernel of product.cuh.
#include "../common/tensor-cores.h"
#include "product.cuh"

namespace gpt2 {

void sm80::fp8_matmul(const CudaContext &context, Epilogue epilogue, const Product &product, const Fp8Operands &fp8,
                      const Outputs<bf16, bf16> &outputs) {
  using E = Epilogue;
  with_epilogue<E::bias, E::gelu, E::residual, E::gelu_backward, E::relu_squared, E::relu_squared_backward>(
      epilogue, [&](auto constant) {
        launch_product<true, true, constant, true>(context, in_pairs(product), outputs, nullptr, 1, fp8);
      });
}

}  // namespace gpt2
