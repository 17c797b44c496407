// The linear layer in FP8, forward and backward, each as one matmul (matmul.cuh). Tensor cores need both FP8 operands
// K-major. So backward to the input takes the transposed weight, and backward to the weight takes columnwise copies.
#include "common/fp8.cuh"
#include "common/tensor-cores.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

void multiply(const CudaContext &gpu, Epilogue epilogue, const Product &product, const Fp8Operands &fp8, void *out,
              void *pre, const void *bias, const void *residual) {
  gpu.kernels->fp8_matmul(gpu, epilogue, product, fp8,
                          {static_cast<bf16 *>(out), static_cast<bf16 *>(pre), static_cast<const bf16 *>(bias),
                           static_cast<const bf16 *>(residual), false});
}

}  // namespace

void ops::fp8_matmul_forward(Context &gpu, void *out, uint8_t *values, float *scale, uint8_t *columnwise,
                             float *columnwise_scale, int8_t *derivative, const uint8_t *in, const float *in_scale,
                             const float *in_norm, const float *in_columnwise_norm, const uint8_t *weight,
                             const float *factors, const void *bias, const void *residual, int N, int C, int O,
                             int activation) {
  const Epilogue epilogue = residual ? Epilogue::residual : forward_epilogue(activation);
  multiply(gpu, epilogue, {in, weight, true, true, N, O, C, C, C},
           {in_scale, factors, values, scale, in_norm, columnwise, columnwise_scale, in_columnwise_norm}, out,
           derivative, bias, residual);
}

void ops::fp8_matmul_backward_input(Context &gpu, void *din, uint8_t *values, float *scale, uint8_t *columnwise,
                                    float *columnwise_scale, const uint8_t *dout, const float *dout_scale,
                                    const float *dout_norm, const float *dout_columnwise_norm,
                                    const uint8_t *transposed, const float *factors, const int8_t *derivative,
                                    const uint8_t *activated, const float *activated_scale,
                                    const float *activated_columnwise_scale, int N, int C, int O, int activation) {
  multiply(gpu, backward_epilogue(activation), {dout, transposed, true, true, N, C, O, O, O},
           {dout_scale, factors, values, scale, dout_norm, columnwise, columnwise_scale, dout_columnwise_norm,
            activated_scale, activated_columnwise_scale},
           din, const_cast<void *>(activated ? static_cast<const void *>(activated) : derivative), nullptr, nullptr);
}

void ops::fp8_matmul_backward_weight(Context &gpu, void *dweight, float *dbias, const uint8_t *dout,
                                     const float *dout_scale, const uint8_t *in, const float *in_scale, int N, int C,
                                     int O, bool accumulate) {
  const int tokens = static_cast<int>(columnwise_groups(N) * GPT2_FP8_GROUP);
  gpu.kernels->fp8_matmul_backward_weight(gpu, Product{dout, in, true, true, O, C, tokens, tokens, tokens}, dout_scale,
                                          in_scale, dweight, dbias, accumulate, gpu.workspace);
}

int64_t ops::fp8_matmul_scratch(const Context &gpu, int N, int C, int O, bool gradients) {
  return gradients ? gpu.kernels->fp8_matmul_backward_weight_scratch(gpu, N, C, O) : 0;
}

}  // namespace gpt2
