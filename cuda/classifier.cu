// The last linear layer with its loss. The kernels for this GPU's generation compute it if they support the case (bf16;
// dbias only with dweight); otherwise a sequence of other ops does. With FP8 only the matmul of the logits differs.
#include <algorithm>

#include "common/fp8.cuh"
#include "common/tensor-cores.h"
#include "cross-entropy.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

bool has_kernel(const CudaContext &context, int C, int Vp) {
  return context.kernels->classifier && context.dtype == GPT2_BF16 && C % 8 == 0 && Vp % 8 == 0;
}

}  // namespace

int ops::classifier(gpt2_context &context, float *losses, void *din, void *dweight, float *dbias, void *logits,
                    const void *in, const uint8_t *in_values, const float *in_scale, const void *weight,
                    const uint8_t *weight_values, const float *factors, const void *bias, const int32_t *targets, int N,
                    int C, int V, int Vp, float dloss, float softcap, bool accumulate) {
  const char *function = "gpt2_classifier";
  int status = in_values ? require_fp8(context, function) : GPT2_OK;
  if (status) return status;
  CudaContext &gpu = cuda(context);
  if ((dweight || !dbias) && has_kernel(gpu, C, Vp) &&
      on_16_bytes(din, dweight, logits, in, in_values, weight, weight_values, bias)) {
    gpu.kernels->classifier(gpu,
                            {losses, static_cast<bf16 *>(din), dweight, dbias, static_cast<bf16 *>(logits),
                             static_cast<const bf16 *>(in), in_values, in_scale, static_cast<const bf16 *>(weight),
                             weight_values, factors, static_cast<const bf16 *>(bias), targets, N, C, V, Vp, dloss,
                             softcap, accumulate},
                            gpu.workspace);
    return GPT2_LAUNCHED(context, function);
  }
  // A sequence of other ops, for other GPUs, dtypes and sizes, and for dbias without dweight.
  if (in_values) {
    status = ops::fp8_matmul_forward(context, logits, nullptr, nullptr, nullptr, nullptr, nullptr, in_values, in_scale,
                                     nullptr, nullptr, weight_values, factors, bias, nullptr, N, C, Vp,
                                     GPT2_NO_ACTIVATION);
  } else {
    status = ops::matmul_forward(context, logits, nullptr, in, weight, bias, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  }
  if (status) return status;
  void *dlogits = din || dweight || dbias ? logits : nullptr;
  capped_cross_entropy(gpu, losses, dlogits, logits, targets, N, V, Vp, dloss, softcap);
  if (din) {
    status = ops::matmul_backward_input(context, din, dlogits, weight, nullptr, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  }
  if (!status && dweight) {
    status = ops::matmul_backward_weight(context, dweight, dbias, dlogits, in, N, C, Vp, accumulate);
  }
  if (!status && dbias && !dweight) column_sums(gpu, dbias, dlogits, N, Vp, accumulate);
  return status ? status : GPT2_LAUNCHED(context, function);
}

int64_t ops::classifier_scratch(const gpt2_context &context, int N, int C, int Vp, bool gradients, bool fp8) {
  const CudaContext &gpu = cuda(context);
  // Misaligned memory always takes the sequence of ops.
  const int64_t in_parts = std::max(gradients ? ops::matmul_scratch(context, N, C, Vp, true) : 0,
                                    fp8 ? ops::fp8_matmul_scratch(context, N, C, Vp, false) : 0);
  if (!has_kernel(gpu, C, Vp)) return in_parts;
  return std::max(in_parts, gpu.kernels->classifier_scratch(gpu, N, C, Vp, gradients));
}

}  // namespace gpt2
