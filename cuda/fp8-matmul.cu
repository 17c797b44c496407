// The linear layer in FP8, forward and backward to the input: each as one product (matmul.cuh). Backward takes the
// transposed weight, so that both operands are K-major, as tensor cores need them.
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
  CudaContext &own = cuda(context);
  own.kernels->fp8_matmul(own, epilogue, Product{in, weight, true, true, N, O, C, C, C}, fp8,
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

int ops::fp8_matmul_gelu_forward(gpt2_context &context, void *out, uint8_t *values, float *scale, void *pre,
                                 const uint8_t *in, const float *in_scale, const uint8_t *weight, const float *factors,
                                 const void *bias, int N, int C, int O) {
  return multiply(context, "gpt2_fp8_matmul_gelu_forward", Epilogue::gelu, out, pre, in, weight, bias, nullptr,
                  {in_scale, factors, values, scale}, N, C, O);
}

int ops::fp8_matmul_relu_squared_forward(gpt2_context &context, void *out, const uint8_t *in, const float *in_scale,
                                         const uint8_t *weight, const float *factors, const void *bias, int N, int C,
                                         int O) {
  return multiply(context, "gpt2_fp8_matmul_relu_squared_forward", Epilogue::relu_squared, out, nullptr, in, weight,
                  bias, nullptr, {in_scale, factors}, N, C, O);
}

int ops::fp8_matmul_gelu_backward_input(gpt2_context &context, void *din, uint8_t *values, float *scale,
                                        const uint8_t *dout, const float *dout_scale, const uint8_t *transposed,
                                        const float *factors, const void *pre, int N, int C, int O) {
  return multiply(context, "gpt2_fp8_matmul_gelu_backward_input", Epilogue::gelu_backward, din, const_cast<void *>(pre),
                  dout, transposed, nullptr, nullptr, {dout_scale, factors, values, scale}, N, O, C);
}

int ops::fp8_matmul_relu_squared_backward_input(gpt2_context &context, void *din, const uint8_t *dout,
                                                const float *dout_scale, const uint8_t *transposed,
                                                const float *factors, const void *activated, int N, int C, int O) {
  return multiply(context, "gpt2_fp8_matmul_relu_squared_backward_input", Epilogue::relu_squared_backward, din,
                  const_cast<void *>(activated), dout, transposed, nullptr, nullptr, {dout_scale, factors}, N, O, C);
}

int64_t ops::fp8_matmul_scratch(const gpt2_context &, int, int, int) { return 0; }

}  // namespace gpt2
