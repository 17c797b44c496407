// A step of a Newton-Schulz iteration on sm_80 and later, by the matmul kernel of product.cuh.
#include "../newton-schulz.cuh"

#include "../common/tensor-cores.h"

namespace gpt2 {

void sm80::newton_schulz(const CudaContext &context, bf16 *out, const bf16 *in, int M, int R, int K, float a, float b,
                         float c, bf16 *scratch) {
  newton_schulz_by_products(out, in, M, R, K, a, b, c, scratch,
                            [&](Epilogue epilogue, const Product &product, const Outputs<bf16, bf16> &outputs) {
                              if (epilogue == Epilogue::bias) return matmul_forward(context, epilogue, product, outputs);
                              matmul_backward_input(context, epilogue, product, outputs);
                            });
}

}  // namespace gpt2
