// FP8 matmuls, sm_89 and later, by the kernel of the linear layer (product.cuh).
#include "../common/tensor-cores.h"
#include "product.cuh"

namespace gpt2 {

void sm80::fp8_matmul(const CudaContext &context, Epilogue epilogue, const Product &product, const Fp8Operands &fp8,
                      const Outputs<bf16, bf16> &outputs) {
  const auto launch = [&](auto constant) {
    launch_product<true, true, decltype(constant)::value, true>(context, in_pairs(product), outputs, nullptr, 1, fp8);
  };
  switch (epilogue) {
    case Epilogue::gelu:
      return launch(std::integral_constant<Epilogue, Epilogue::gelu>{});
    case Epilogue::residual:
      return launch(std::integral_constant<Epilogue, Epilogue::residual>{});
    case Epilogue::gelu_backward:
      return launch(std::integral_constant<Epilogue, Epilogue::gelu_backward>{});
    case Epilogue::relu_squared:
      return launch(std::integral_constant<Epilogue, Epilogue::relu_squared>{});
    case Epilogue::relu_squared_backward:
      return launch(std::integral_constant<Epilogue, Epilogue::relu_squared_backward>{});
    default:
      return launch(std::integral_constant<Epilogue, Epilogue::bias>{});
  }
}

}  // namespace gpt2
