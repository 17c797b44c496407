// The linear layer in FP8, forward and backward, each as one matmul (matmul.cuh). Tensor cores need both FP8 operands
// K-major. So backward to the input takes the transposed weight, and backward to the weight takes columnwise copies.
#include "common/fp8.cuh"
#include "common/tensor-cores.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

// out [N,O] from in [N,C] and weight [O,C].
int multiply(gpt2_context &context, const char *function, Epilogue epilogue, void *out, void *pre, const uint8_t *in,
             const uint8_t *weight, const void *bias, const void *residual, const Fp8Operands &fp8, int N, int C,
             int O) {
  if (const int status = require_fp8(context, function)) return status;
  CudaContext &gpu = cuda(context);
  gpu.kernels->fp8_matmul(gpu, epilogue, Product{in, weight, true, true, N, O, C, C, C}, fp8,
                          {static_cast<bf16 *>(out), static_cast<bf16 *>(pre), static_cast<const bf16 *>(bias),
                           static_cast<const bf16 *>(residual), false});
  return GPT2_LAUNCHED(context, function);
}

}  // namespace

int ops::fp8_matmul(gpt2_context &context, void *out, const uint8_t *in, const float *in_scale, const uint8_t *weight,
                    const float *factors, const void *bias, const void *residual, int N, int C, int O) {
  return multiply(context, "gpt2_fp8_matmul", residual ? Epilogue::residual : Epilogue::bias, out, nullptr, in, weight,
                  bias, residual, {in_scale, factors}, N, C, O);
}

int ops::fp8_matmul_gelu_forward(gpt2_context &context, uint8_t *values, float *scale, uint8_t *columnwise,
                                 float *columnwise_scale, void *pre, const uint8_t *in, const float *in_scale,
                                 const float *in_norm, const float *in_columnwise_norm, const uint8_t *weight,
                                 const float *factors, const void *bias, int N, int C, int O) {
  return multiply(context, "gpt2_fp8_matmul_gelu_forward", Epilogue::gelu, nullptr, pre, in, weight, bias, nullptr,
                  {in_scale, factors, values, scale, in_norm, columnwise, columnwise_scale, in_columnwise_norm}, N, C,
                  O);
}

int ops::fp8_matmul_relu_squared_forward(gpt2_context &context, uint8_t *values, float *scale, uint8_t *columnwise,
                                         float *columnwise_scale, const uint8_t *in, const float *in_scale,
                                         const float *in_norm, const float *in_columnwise_norm, const uint8_t *weight,
                                         const float *factors, const void *bias, int N, int C, int O) {
  return multiply(
      context, "gpt2_fp8_matmul_relu_squared_forward", Epilogue::relu_squared, nullptr, nullptr, in, weight, bias,
      nullptr, {in_scale, factors, values, scale, in_norm, columnwise, columnwise_scale, in_columnwise_norm}, N, C, O);
}

int ops::fp8_matmul_gelu_backward_input(gpt2_context &context, uint8_t *values, float *scale, uint8_t *columnwise,
                                        float *columnwise_scale, const uint8_t *dout, const float *dout_scale,
                                        const float *dout_norm, const float *dout_columnwise_norm,
                                        const uint8_t *transposed, const float *factors, const void *pre, int N, int C,
                                        int O) {
  return multiply(context, "gpt2_fp8_matmul_gelu_backward_input", Epilogue::gelu_backward, nullptr,
                  const_cast<void *>(pre), dout, transposed, nullptr, nullptr,
                  {dout_scale, factors, values, scale, dout_norm, columnwise, columnwise_scale, dout_columnwise_norm},
                  N, O, C);
}

int ops::fp8_matmul_relu_squared_backward_input(gpt2_context &context, uint8_t *values, float *scale,
                                                uint8_t *columnwise, float *columnwise_scale, const uint8_t *dout,
                                                const float *dout_scale, const float *dout_norm,
                                                const float *dout_columnwise_norm, const uint8_t *transposed,
                                                const float *factors, const uint8_t *activated,
                                                const float *activated_scale, const float *activated_columnwise_scale,
                                                int N, int C, int O) {
  return multiply(context, "gpt2_fp8_matmul_relu_squared_backward_input", Epilogue::relu_squared_backward, nullptr,
                  const_cast<uint8_t *>(activated), dout, transposed, nullptr, nullptr,
                  {dout_scale, factors, values, scale, dout_norm, columnwise, columnwise_scale, dout_columnwise_norm,
                   activated_scale, activated_columnwise_scale},
                  N, O, C);
}

int64_t ops::fp8_matmul_scratch(const gpt2_context &, int, int, int) { return 0; }

int ops::fp8_matmul_backward_weight(gpt2_context &context, void *dweight, float *dbias, const uint8_t *dout,
                                    const float *dout_scale, const uint8_t *in, const float *in_scale, int N, int C,
                                    int O, bool accumulate) {
  const char *function = "gpt2_fp8_matmul_backward_weight";
  if (const int status = require_fp8(context, function)) return status;
  CudaContext &gpu = cuda(context);
  const int tokens = static_cast<int>(columnwise_groups(N) * GPT2_FP8_GROUP);
  gpu.kernels->fp8_matmul_backward_weight(gpu, Product{dout, in, true, true, O, C, tokens, tokens, tokens}, dout_scale,
                                          in_scale, dweight, dbias, accumulate, gpu.workspace);
  return GPT2_LAUNCHED(context, function);
}

int64_t ops::fp8_matmul_backward_weight_scratch(const gpt2_context &context, int N, int C, int O) {
  const CudaContext &gpu = cuda(context);
  return gpu.kernels->fp8_matmul_backward_weight_scratch(gpu, N, C, O);
}

}  // namespace gpt2
